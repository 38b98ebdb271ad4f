//! Who is the primary, by the rules of [`postgres_model::failover`].

use std::time::Duration;

use postgres_model::{
    failover::{self, FailoverState, MemberView, Step, View},
    report::InstanceReport,
    timeline::History,
};

use super::{FailoverObstacle, Observed, adoption, rollout};
use crate::{
    api::TimelineStatus,
    membership::{Membership, Serial, name_of_member},
};

/// Most states that one decision goes through: a failover begins, or has a target, or is confirmed.
const MOST_STATES: usize = 3;

/// What an election needs of the members.
#[derive(Debug, Default)]
pub(super) struct Election {
    /// Members to seal.
    pub(super) seals: Vec<Serial>,
    /// Why there is no new primary.
    pub(super) obstacle: Option<FailoverObstacle>,
    /// Whether a person has chosen the target.
    pub(super) is_forced: bool,
}

/// Changes the target or the primary, as far as that is possible.
pub(super) fn elect(observed: &Observed, next: &mut Membership) -> Election {
    if next.bootstrap.is_none() {
        return Election::default();
    }
    let request = observed.switchover.request.as_deref().or_else(|| rollout::switchover(observed, next));
    let members = views(observed, next);
    let joined = joined(next);
    let replication = observed.replication(&joined, None);
    let mut since_change = observed.failover.since_change;
    for _ in 0..MOST_STATES {
        let view = View {
            state: &next.failover,
            members: &members,
            lease_is_free: observed.failover.lease_expires_in.is_zero(),
            expired_lease: observed.failover.expired_lease.as_deref(),
            since_change,
            lease: observed.failover.lease,
            max_lag: observed.failover.max_lag,
            number: observed.synchronous.number,
            last_position: observed.failover.last_position,
            switchover: request,
            successors: &observed.switchover.successors,
            since_fenced: observed.failover.since_fenced,
            forced: observed.forced.as_deref(),
        };
        match failover::decide(view, |primary| replication.first(primary)) {
            Step::Store(state)
                if state.target.is_none() && state.switchover.is_none() && !observed.failover.enabled =>
            {
                return Election { obstacle: Some(FailoverObstacle::Disabled), ..Election::default() };
            }
            Step::Store(state) => {
                since_change = Duration::ZERO;
                store(observed, next, state);
            }
            Step::Force(state) => {
                adoption::give_up_silent_members(observed, next);
                store(observed, next, state);
                return Election { is_forced: true, ..Election::default() };
            }
            step => return election(step, next),
        }
    }
    Election::default()
}

/// Changes the synchronous replication of the primary by one step.
pub(super) fn replicate(observed: &Observed, next: &mut Membership) {
    let joined = joined(next);
    let primary = next.members.iter().find(|member| next.is_primary(member.serial));
    let report = primary.and_then(|primary| observed.reports.get(&primary.serial));
    let replication = observed.replication(&joined, report);
    let reigns =
        report.filter(|_| !observed.primary_is_fenced()).and_then(|_| replication.next(&next.failover));
    if let Some(reigns) = reigns {
        next.failover.reigns = reigns;
    }
}

/// Returns the names of the members that have joined and stay.
fn joined(next: &Membership) -> Vec<String> {
    next.staying().filter(|member| member.joined).map(|member| next.name_of(member.serial)).collect()
}

fn views(observed: &Observed, next: &Membership) -> Vec<MemberView> {
    let view = |serial: Serial| MemberView {
        name: next.name_of(serial),
        serial: serial.into(),
        is_gone: observed.pods.get(&serial).is_none_or(|pod| pod.is_finished),
        on_cordoned_node: false,
        is_fenced: observed.is_fenced(serial),
        report: observed.reports.get(&serial).cloned(),
    };
    next.members.iter().map(|member| view(member.serial)).collect()
}

fn election(step: Step, next: &Membership) -> Election {
    let obstacle = |obstacle| Election { obstacle: Some(obstacle), ..Election::default() };
    match step {
        Step::Seal(names) => {
            let serials = next.members.iter().map(|member| member.serial);
            let seals = serials.filter(|serial| names.contains(&next.name_of(*serial))).collect();
            Election { seals, ..Election::default() }
        }
        Step::NoQuorum(missing) => obstacle(FailoverObstacle::NoQuorum(missing)),
        Step::Unprotected => obstacle(FailoverObstacle::Unprotected),
        Step::DiskFull(members) => obstacle(FailoverObstacle::DiskFull(members)),
        Step::TooFarBehind(bytes) => obstacle(FailoverObstacle::TooFarBehind(bytes)),
        Step::None | Step::Store(_) | Step::Force(_) => Election::default(),
    }
}

/// Records a state. A target stays a member, and with a new primary comes its history.
fn store(observed: &Observed, next: &mut Membership, state: FailoverState) {
    let is_confirmed = state.current.is_some() && next.failover.current.is_none();
    next.failover = state;
    // It has what the others may lack, so it stays, and another one leaves.
    let target = next.failover.target.clone();
    for member in &mut next.members {
        member.leaving &= target != Some(name_of_member(&next.cluster, member.serial));
    }
    let primary = next.members.iter().find(|member| next.is(member.serial, next.failover.current.as_ref()));
    let report = primary.and_then(|primary| observed.reports.get(&primary.serial));
    if let (true, Some(report)) = (is_confirmed, report) {
        next.system_id = next.system_id.or(report.system_identifier);
        next.timelines = timelines(&next.timelines, &next.failover, report);
        if let (Some(_), Some(bootstrap)) = (next.system_id, &mut next.bootstrap) {
            bootstrap.done = true;
        }
    }
}

/// Returns the timelines of a primary. What is known about earlier ones stays.
fn timelines(
    known: &[TimelineStatus],
    state: &FailoverState,
    report: &InstanceReport,
) -> Vec<TimelineStatus> {
    let text = report.history.as_deref().unwrap_or_default();
    let Ok(history) = History::parse(state.timeline, text) else { return known.to_vec() };
    let mut fork_lsn = None;
    let mut timelines = Vec::new();
    let own = |number| TimelineStatus { number, fork_lsn: None, member: String::new(), epoch: 0 };
    for (number, end) in history.switches() {
        let known = known.iter().find(|timeline| timeline.number == number).cloned();
        timelines.push(TimelineStatus { fork_lsn, ..known.unwrap_or_else(|| own(number)) });
        fork_lsn = Some(end);
    }
    timelines.push(TimelineStatus {
        number: state.timeline,
        fork_lsn,
        member: state.current.clone().unwrap_or_default(),
        epoch: state.epoch.try_into().unwrap_or(i64::MAX),
    });
    timelines
}
