//! A database that is recovered from the archive of another cluster.
//!
//! The first member restores it, and replays WAL up to the end of the recovery. From then on, it is like
//! the only member of a former cluster: it is sealed, chosen, and promoted to a timeline of its own.

use postgres_model::failover::FailoverState;

use super::{Observed, size};
use crate::{api::RecoveryStatus, membership::Membership};

/// Lets the first member recover the database.
pub(super) fn begin(next: &mut Membership, source: RecoveryStatus) {
    let first = size::add(next);
    // The API server accepts no name of a cluster with which this could fail.
    if let Ok(state) = FailoverState::adopting(vec![next.name_of(first)]) {
        next.failover = state;
        next.recovery = Some(source);
    }
}

/// Learns what the member has that recovers. It can be chosen once it has recovered: before, it reports a
/// state in which it cannot be sealed.
pub(super) fn learn(observed: &Observed, next: &mut Membership) {
    if !next.is_recovering() || next.failover.target.is_some() {
        return;
    }
    let usable = next.members.iter().filter(|member| observed.problem(member).is_none());
    let reports = usable.filter_map(|member| observed.reports.get(&member.serial));
    // Without data, it is about to restore them.
    let reports: Vec<_> = reports.filter(|report| report.system_identifier.is_some()).collect();
    let system = reports.first().and_then(|report| report.system_identifier);
    next.system_id = next.system_id.or(system);
    next.failover.learn(reports.into_iter().map(|report| (report.member.as_str(), report)));
}

/// Ends the recovery once there is a primary.
pub(super) fn finish(next: &mut Membership) {
    if let (Some(recovery), Some(_)) = (&mut next.recovery, &next.failover.current) {
        recovery.done = true;
    }
}
