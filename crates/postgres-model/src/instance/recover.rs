//! The plan of a member that restores the database from an archive.
//!
//! It runs as a standby without an upstream until it has replayed all that the recovery asks for. Then
//! the operator seals it and chooses it as the target, as it does with the members of a former cluster.

use super::{ClusterView, Command, DataDirectory, MAX_FAILED_STARTS, Observed, Plan, Problem, Server};
use crate::report::InstanceState;

/// Plans the next step of a recovery. Returns `None` if there is none for this member, or it has ended.
pub(super) fn plan(observed: &Observed, view: &ClusterView) -> Option<Plan> {
    if observed.server.is_primary() {
        return None;
    }
    let begun = observed.volume.recovery.is_some();
    let plan = match &observed.data {
        DataDirectory::Missing => may_restore(observed, view).then(|| restore(observed)),
        // The present cluster would take data for its own that have not recovered.
        DataDirectory::Whole(_) if begun && !view.recovers && observed.volume.promotion_begun.is_none() => {
            Some(observed.stop(InstanceState::Hold, Some(Problem::UnfinishedRecovery)))
        }
        DataDirectory::Whole(_) if begun && observed.volume.sealed_epoch.is_none() => replay(observed, view),
        DataDirectory::Whole(_) => None,
    };
    // A plan that stops PostgreSQL says itself what happens to the Lease.
    plan.map(|plan| match plan.command {
        Some(Command::Stop(_)) => plan,
        _ => Plan { lease: observed.release(), ..plan },
    })
}

/// Returns whether the operator has named this volume for the recovery.
fn may_restore(observed: &Observed, view: &ClusterView) -> bool {
    view.recovers
        && view.create_on.as_ref() == Some(&observed.volume_uid)
        && view.system_identifier.is_none()
        && observed.volume.system_identifier.is_none()
}

fn restore(observed: &Observed) -> Plan {
    if observed.space.may_copy() {
        return Plan::with(InstanceState::Restore, Command::Restore);
    }
    Plan { state: InstanceState::DiskFull, ..Plan::problem(Problem::TooSmall) }
}

fn replay(observed: &Observed, view: &ClusterView) -> Option<Plan> {
    match observed.server {
        _ if view.is_target(&observed.member) => None,
        Server::Down => {
            let fails = observed.failed_starts >= MAX_FAILED_STARTS;
            let problem = fails.then_some(Problem::RecoveryFails);
            let command = Command::StartStandby { upstream: None };
            Some(Plan { problem, ..Plan::with(InstanceState::Restore, command) })
        }
        _ => (!observed.recovered).then(|| Plan::new(InstanceState::Restore)),
    }
}
