//! How a cluster begins that takes over the members of a former one. Pure.
//!
//! What the operator of the former cluster knew is lost with its status: who was the primary, and on
//! which standbys commits waited. Any acknowledged write may be on one member only, so all of them have
//! to be sealed and compared. That is the quorum of a configuration in which a commit waits for any one
//! of them, and the rest of a failover is as usual.

use super::{FailoverState, Reign};
use crate::{
    report::InstanceReport,
    sync::{SyncConfiguration, SyncConfigurationError},
    timeline::TimelineId,
};

/// Stands for whoever was the primary of the former cluster. It is the name of no member.
const FORMER: &str = "";

impl FailoverState {
    /// Returns the state of a new cluster with the members of a former one, also those that are
    /// missing.
    ///
    /// # Errors
    /// Returns an error for names that no members can have.
    pub fn adopting(members: Vec<String>) -> Result<Self, SyncConfigurationError> {
        let number = usize::from(!members.is_empty());
        let former =
            Reign { primary: FORMER.to_owned(), configuration: SyncConfiguration::new(number, members)? };
        Ok(Self {
            epoch: 1,
            target: None,
            current: None,
            expired_lease: None,
            timeline: TimelineId::FIRST,
            reigns: vec![former],
            switchover: None,
            fenced: false,
        })
    }

    /// Learns from the reports of members which timelines were used, and which members never had data.
    /// Does nothing once a member may write.
    ///
    /// Without reigns afterwards, none of them has data.
    pub fn learn<'a>(&mut self, reports: impl Iterator<Item = (&'a str, &'a InstanceReport)>) {
        if self.target.is_some() {
            return;
        }
        for (member, report) in reports {
            let known = [report.timeline, report.highest_timeline];
            self.timeline = known.into_iter().flatten().fold(self.timeline, TimelineId::max);
            if report.is_empty {
                self.forget(member);
            }
        }
    }

    /// No commit has waited for a member without data.
    fn forget(&mut self, member: &str) {
        for former in self.reigns.iter_mut().filter(|reign| reign.primary == FORMER) {
            let members = former.configuration.members().iter();
            let members: Vec<_> = members.filter(|name| *name != member).cloned().collect();
            let number = usize::from(!members.is_empty());
            // The remaining names were valid before.
            former.configuration = SyncConfiguration::new(number, members).unwrap_or_default();
        }
        self.reigns.retain(|reign| reign.primary != FORMER || reign.configuration.number() > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        failover::{MemberView, Step, View, decide},
        lsn::Lsn,
        report::InstanceState,
    };

    fn report(serial: u64, state: InstanceState, timeline: u32, lsn: u64) -> InstanceReport {
        let mut report = InstanceReport::starting(format!("db-{serial}"), "p".into(), "0");
        report.state = state;
        report.timeline = TimelineId::new(timeline).ok();
        report.positions.received = Some(Lsn(lsn));
        report.sealed_epoch = (state == InstanceState::Sealed).then_some(1);
        report
    }

    fn member(report: InstanceReport) -> MemberView {
        let serial = report.member.rsplit('-').next().and_then(|serial| serial.parse().ok()).unwrap();
        MemberView {
            name: report.member.clone(),
            serial,
            is_gone: false,
            on_cordoned_node: false,
            is_fenced: false,
            report: Some(report),
        }
    }

    fn step(state: &FailoverState, reports: Vec<InstanceReport>) -> Step {
        let members: Vec<_> = reports.into_iter().map(member).collect();
        let view = View {
            state,
            members: &members,
            lease_is_free: true,
            expired_lease: None,
            since_change: std::time::Duration::from_mins(1),
            lease: std::time::Duration::from_secs(15),
            max_lag: 0,
            number: 1,
            last_position: None,
            switchover: None,
            successors: &[],
            since_fenced: std::time::Duration::ZERO,
            forced: None,
        };
        decide(view, |_| SyncConfiguration::default())
    }

    fn learn(state: &mut FailoverState, reports: &[InstanceReport]) {
        state.learn(reports.iter().map(|report| (report.member.as_str(), report)));
    }

    fn adopting(members: u64) -> FailoverState {
        FailoverState::adopting((1..=members).map(|serial| format!("db-{serial}")).collect()).unwrap()
    }

    #[test]
    fn member_with_the_most_wal_is_promoted_after_all_have_answered() {
        let mut state = adopting(3);
        let sealed = |serial, timeline, lsn| report(serial, InstanceState::Sealed, timeline, lsn);
        let two = vec![sealed(1, 1, 0x90), sealed(3, 2, 0x50)];
        learn(&mut state, &two);
        assert!(matches!(step(&state, two.clone()), Step::NoQuorum(_)), "db-2 may have another row");
        let mut late = sealed(2, 2, 0x40);
        late.highest_timeline = TimelineId::new(5).ok();
        let all = [two, vec![late]].concat();
        learn(&mut state, &all);
        let Step::Store(next) = step(&state, all) else { panic!("nobody was promoted") };
        assert_eq!((next.target.as_deref(), next.timeline.get(), next.epoch), (Some("db-3"), 6, 1));
    }

    #[test]
    fn member_without_data_is_not_waited_for() {
        let mut state = adopting(2);
        let mut empty = report(2, InstanceState::Hold, 1, 0);
        (empty.timeline, empty.is_empty) = (None, true);
        let reports = vec![report(1, InstanceState::Sealed, 1, 0x40), empty.clone()];
        learn(&mut state, &reports);
        let Step::Store(next) = step(&state, reports) else { panic!("nobody was promoted") };
        assert_eq!(next.target.as_deref(), Some("db-1"));

        let mut state = adopting(1);
        empty.member = "db-1".into();
        learn(&mut state, &[empty]);
        assert!(state.reigns.is_empty(), "there is nothing to adopt");
    }

    #[test]
    fn single_member_is_promoted_again_after_an_interruption() {
        let mut state = adopting(1);
        let sealed = report(1, InstanceState::Sealed, 1, 0x40);
        let Step::Store(promoting) = step(&state, vec![sealed]) else { panic!("nobody was promoted") };
        let mut waiting = report(1, InstanceState::Hold, 1, 0x40);
        waiting.highest_timeline = Some(promoting.timeline);
        assert_eq!(step(&promoting, vec![waiting.clone()]), Step::None, "it is about to be promoted");
        waiting.problem = Some("interrupted".into());
        let Step::Store(next) = step(&promoting, vec![waiting.clone()]) else { panic!("it waits for ever") };
        assert_eq!((next.target.as_deref(), next.epoch), (None, 2));
        state = next;
        let mut sealed = report(1, InstanceState::Sealed, 1, 0x40);
        (sealed.sealed_epoch, sealed.highest_timeline) = (Some(2), waiting.highest_timeline);
        learn(&mut state, &[sealed.clone()]);
        let Step::Store(again) = step(&state, vec![sealed]) else { panic!("nobody was promoted") };
        assert!(again.timeline > promoting.timeline, "{again:?}");
    }
}
