//! The plan of a member whose volume is full.
//!
//! PostgreSQL stops, and the Lease goes to another member. A sealed member runs without an upstream
//! if the operator asked for what it has: it then writes next to nothing.

use super::{ClusterView, Command, Observed, Plan, Problem, Server};
use crate::report::InstanceState;

/// Plans the next step of a member whose volume is full.
pub(super) fn plan(observed: &Observed, view: &ClusterView) -> Plan {
    let is_asked = view.target.is_none() && observed.volume.sealed_epoch == Some(view.epoch);
    match observed.server {
        Server::Standby { upstream: None } if is_asked => observed.full(InstanceState::Sealed),
        Server::Down if is_asked && observed.data.control().is_some() => {
            let command = Some(Command::StartStandby { upstream: None });
            Plan { command, ..observed.full(InstanceState::DiskFull) }
        }
        _ => observed.stop(InstanceState::DiskFull, Some(Problem::DiskFull)),
    }
}

impl Observed {
    /// Returns a plan without a command, for a member that does not need the Lease.
    fn full(&self, state: InstanceState) -> Plan {
        Plan { lease: self.release(), problem: Some(Problem::DiskFull), ..Plan::new(state) }
    }
}
