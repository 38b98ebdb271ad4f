//! Members that a person has fenced.
//!
//! An instance stops by itself when it reads that it is fenced. A fenced standby holds up nothing. A
//! fenced primary stays the primary: whoever fences it wants no writes.

use super::Observed;
use crate::membership::Serial;

impl Observed {
    /// Returns whether a person has fenced the primary, or it has not led since.
    pub(super) fn primary_is_fenced(&self) -> bool {
        self.membership.failover.fenced || self.primary_is_listed()
    }

    /// Returns whether a person wants the primary to be down now.
    pub(crate) fn primary_is_listed(&self) -> bool {
        let primary = self.membership.failover.current.as_ref();
        primary.is_some_and(|primary| self.fence.contains(primary))
    }

    /// Returns whether a person has fenced a member.
    pub(super) fn is_fenced(&self, serial: Serial) -> bool {
        self.fence.contains(&self.membership.name_of(serial))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use postgres_model::{fence::Fence, lsn::Lsn, report::InstanceState, timeline::TimelineId};

    use super::*;
    use crate::{
        decide::{
            Action, decide,
            tests::{report, running},
        },
        membership::tests::configuration,
    };

    /// Returns three members, some of which are fenced and have stopped.
    fn fenced(annotation: &str) -> Observed {
        let mut observed = running(3, &[1, 2, 3]);
        observed.fence = Fence::parse(Some(annotation));
        for serial in [1, 2, 3].into_iter().filter(|serial| observed.is_fenced(*serial)).collect::<Vec<_>>() {
            observed.pods.get_mut(&serial).unwrap().is_ready = false;
            let stopped = report(serial, InstanceState::Fenced, TimelineId::FIRST);
            observed.reports.insert(serial, stopped);
            observed.synchronous.streaming.retain(|name| *name != format!("db-{serial}"));
        }
        if observed.primary_is_listed() {
            observed.failover.lease_expires_in = Duration::ZERO;
            observed.synchronous.streaming.clear();
            observed.synchronous.streaming_since = Duration::ZERO;
        }
        observed
    }

    #[test]
    fn nobody_replaces_a_fenced_primary() {
        for annotation in ["db-1", "*", "db-2, db-1"] {
            let mut observed = fenced(annotation);
            let decision = decide(&observed);
            assert!(decision.membership.failover.fenced);
            assert_eq!((decision.actions, decision.obstacle), (vec![], None), "{annotation}");
            observed.membership.failover.fenced = true;
            assert_eq!(decision.membership, observed.membership, "nothing else changes");
            // Neither a lost Pod, nor a new spec, nor a request changes that.
            observed.pods.remove(&1);
            observed.reports.remove(&1);
            observed.pods.get_mut(&2).unwrap().revision = "old".into();
            observed.switchover.request = Some("any".into());
            observed.size = 5;
            let decision = decide(&observed);
            assert_eq!(
                (decision.membership, decision.actions),
                (observed.membership, vec![Action::CreatePod(1)])
            );
        }
    }

    #[test]
    fn members_of_a_hibernated_cluster_are_stopped_and_start_with_the_same_primary() {
        let mut observed = fenced("*");
        observed.hibernated = true;
        let decision = decide(&observed);
        assert!(decision.membership.failover.fenced);
        assert_eq!(decision.actions, [Action::DeletePod(1, "p-1".into())], "one after the other");
        observed.membership = decision.membership;
        observed.pods.clear();
        observed.reports.clear();
        assert_eq!(
            (decide(&observed).membership, decide(&observed).actions),
            (observed.membership.clone(), vec![])
        );

        (observed.hibernated, observed.fence) = (false, Fence::default());
        observed.failover.since_fenced = Duration::from_secs(29);
        let woken = decide(&observed);
        assert_eq!(woken.membership, observed.membership, "its Pod is about to be created");
        assert_eq!(woken.actions, [1, 2, 3].map(Action::CreatePod));
        observed.failover.since_fenced = Duration::from_secs(30);
        assert_eq!(decide(&observed).membership.failover.epoch, 2, "it does not come back");
    }

    #[test]
    fn primary_that_is_no_longer_fenced_has_time_to_start() {
        let mut observed = fenced("db-1");
        observed.membership.failover.fenced = true;
        observed.fence = Fence::default();
        observed.failover.since_fenced = Duration::from_secs(29);
        assert_eq!(decide(&observed).membership, observed.membership);
        let mut late = observed.clone();
        late.failover.since_fenced = Duration::from_secs(30);
        let failover = decide(&late).membership.failover;
        assert_eq!((failover.epoch, failover.target, failover.fenced), (2, None, false));

        observed.failover.lease_expires_in = Duration::from_secs(15);
        observed.reports.insert(1, report(1, InstanceState::Primary, TimelineId::FIRST));
        observed.membership.failover.fenced = false;
        assert_eq!(decide(&observed).membership.failover, observed.membership.failover, "it leads again");
    }

    #[test]
    fn fenced_standby_holds_up_nothing() {
        let mut observed = fenced("db-3");
        assert_eq!(decide(&observed).membership, observed.membership, "one of two standbys is enough");
        observed.pods.get_mut(&2).unwrap().revision = "old".into();
        assert_eq!(decide(&observed).actions, [Action::DeletePod(2, "p-2".into())]);
        observed.pods.get_mut(&3).unwrap().revision = "old".into();
        assert_eq!(
            decide(&observed).actions,
            [Action::DeletePod(3, "p-3".into())],
            "it does not work anyway"
        );
        let mut larger = fenced("db-3");
        larger.size = 4;
        assert_eq!(decide(&larger).membership.members.len(), 4);

        let mut alone = fenced("db-2, db-3");
        let reigns = decide(&alone).membership.failover.reigns;
        assert_eq!(reigns[1].configuration, configuration(0, &[]), "commits no longer wait");
        alone.synchronous.streaming_since = Duration::from_secs(9);
        assert_eq!(decide(&alone).membership.failover.reigns.len(), 1);
    }

    #[test]
    fn fenced_member_is_no_candidate() {
        let mut observed = fenced("db-3");
        observed.switchover.request = Some("db-3".into());
        observed.switchover.successors = vec!["db-2".into(), "db-3".into()];
        assert_eq!(decide(&observed).membership, observed.membership, "no switchover to it");

        // It was sealed before it was fenced, and has the most WAL.
        let mut sealed = fenced("db-3");
        sealed.pods.remove(&1);
        sealed.reports.remove(&1);
        let failover = &mut sealed.membership.failover;
        (failover.epoch, failover.current, failover.target) = (2, None, None);
        failover.reigns[0].configuration = configuration(1, &["db-2"]);
        for serial in [2, 3] {
            let mut report = report(serial, InstanceState::Sealed, TimelineId::FIRST);
            report.sealed_epoch = Some(2);
            report.positions.received = Some(Lsn(serial.into()));
            sealed.reports.insert(serial, report);
        }
        assert_eq!(decide(&sealed).membership.failover.target.as_deref(), Some("db-2"));
        sealed.membership.failover.reigns[0].configuration = configuration(1, &["db-2", "db-3"]);
        assert_eq!(decide(&sealed).membership.failover.target, None, "its rows may be needed");

        // A target that is fenced before it leads is given up.
        sealed.membership.failover.target = Some("db-3".into());
        sealed.pods.remove(&1);
        let failover = decide(&sealed).membership.failover;
        assert_eq!((failover.epoch, failover.target), (3, None));
    }
}
