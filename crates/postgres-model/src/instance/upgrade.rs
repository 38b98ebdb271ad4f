//! The plan of the member that upgrades its data to another major version.
//!
//! All members are stopped meanwhile. The operator replaces the Pod of this one by a Pod with the programs of the
//! new version, and then waits for the new system identifier, or for the failure.

use super::{ClusterView, Command, Observed, Plan, Problem, Server};
use crate::report::InstanceState;

/// Plans the next step of an upgrade to a major version.
pub(super) fn plan(observed: &Observed, view: &ClusterView, to: u16) -> Plan {
    let versions = observed.versions;
    // The Pod from before the upgrade has no programs of another version, and is about to be replaced.
    if observed.server != Server::Down || (versions.programs != to && versions.data.is_none()) {
        return observed.stop(InstanceState::Fenced, None);
    }
    let plan = if versions.programs != to {
        Plan::problem(Problem::OtherVersion)
    } else if observed.data.control().is_none() {
        Plan::problem(Problem::DataLost)
    } else if versions.data == Some(to) || versions.upgrade_failed {
        Plan::new(InstanceState::Hold)
    } else if let Some(problem) = observed.identity_problem(view) {
        Plan::problem(problem)
    } else if observed.space.is_full() {
        Plan::problem(Problem::DiskFull)
    } else {
        Plan::with(InstanceState::Upgrade, Command::Upgrade)
    };
    Plan { lease: observed.release(), ..plan }
}
