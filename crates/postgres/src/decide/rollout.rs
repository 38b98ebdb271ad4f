//! Replaces Pods that were created from another spec, or whose PostgreSQL needs a restart for a
//! parameter, one at a time: the standbys first, and then the
//! primary, after a switchover.

use std::time::Duration;

use postgres_model::failover::ANY;

use super::{Action, Observed};
use crate::{
    api::PrimaryUpdate,
    membership::{Membership, Serial},
};

/// Time between two switchovers of a rollout. The first one can end with the same primary.
pub(super) const PAUSE: Duration = Duration::from_secs(10);

/// Returns the members whose Pods have to be replaced.
pub(super) fn outdated(observed: &Observed, next: &Membership) -> Vec<Serial> {
    let Some(revision) = &observed.updates.revision else { return Vec::new() };
    let is_outdated = |serial: &Serial| {
        let pod = observed.pods.get(serial).filter(|pod| !pod.is_terminating);
        let report = observed.reports.get(serial);
        pod.is_some_and(|pod| {
            let needs_restart = report.is_some_and(|it| it.pending_restart && it.pod_uid == pod.uid);
            pod.revision != *revision || needs_restart
        })
    };
    next.staying().map(|member| member.serial).filter(is_outdated).collect()
}

/// Returns the request for a switchover, if only the primary is outdated.
pub(super) fn switchover<'a>(observed: &Observed, next: &Membership) -> Option<&'a str> {
    let is_due = observed.updates.primary == PrimaryUpdate::Automatic
        && observed.failover.since_change >= PAUSE
        && next.members.len() > 1
        && is_settled(observed, next)
        && is_primary_alone(&outdated(observed, next), next);
    is_due.then_some(ANY)
}

/// Returns the deletion of the next Pod.
///
/// A Pod that does not work is replaced at once: the former spec may be the cause. So is that of a
/// standby whose PostgreSQL is down, because a person has fenced it.
pub(super) fn next_pod(observed: &Observed, next: &Membership) -> Option<Action> {
    let outdated = outdated(observed, next);
    let is_single = next.members.len() == 1;
    let is_broken = |serial: &Serial| {
        !observed.is_ready(*serial)
            && (observed.is_fenced(*serial) || !observed.reports.contains_key(serial))
            && (is_single || !next.is_primary_or_target(*serial))
    };
    let may_restart = |serial: &Serial| {
        let is_free = is_single && observed.updates.primary == PrimaryUpdate::Automatic;
        is_free || !next.is_primary_or_target(*serial)
    };
    let is_settled = is_settled(observed, next);
    let broken = outdated.iter().find(|serial| is_broken(serial));
    let serial = broken.or_else(|| outdated.iter().rev().find(|serial| is_settled && may_restart(serial)))?;
    let pod = observed.pods.get(serial)?;
    Some(Action::DeletePod(*serial, pod.uid.clone()))
}

fn is_primary_alone(outdated: &[Serial], next: &Membership) -> bool {
    matches!(outdated, [serial] if next.is_primary(*serial))
}

/// Returns whether nothing changes, and all members of the spec work. Standbys that a person has
/// fenced hold up nothing.
pub(super) fn is_settled(observed: &Observed, next: &Membership) -> bool {
    let failover = &next.failover;
    let streams = |serial: Serial| observed.synchronous.streaming.contains(&next.name_of(serial));
    let works = |serial: Serial| {
        let is_standby = !next.is_primary(serial);
        (is_standby && observed.is_fenced(serial))
            || (observed.is_ready(serial) && (!is_standby || streams(serial)))
    };
    failover.current.is_some()
        && *failover == observed.membership.failover
        && failover.reigns.len() == 1
        && next.members.len() == observed.size
        && next.members.iter().all(|member| member.joined && !member.leaving && works(member.serial))
}
