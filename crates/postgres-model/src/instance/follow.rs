//! The plan of a member that is not the target.

use super::{ClusterView, Command, ControlData, Observed, Plan, Problem, Server};
use crate::{
    report::InstanceState,
    timeline::{Ancestry, ancestry},
};

/// Plans the next step of a member that follows the primary, or waits for one.
pub(super) fn plan(observed: &Observed, view: &ClusterView) -> Plan {
    if observed.server.is_primary() {
        return observed.stop(InstanceState::Hold, None);
    }
    let is_sealed = observed.volume.sealed_epoch.is_some_and(|sealed| sealed > view.epoch)
        || (view.primary().is_none() && observed.volume.sealed_epoch == Some(view.epoch));
    let upstream = view.primary().filter(|_| !is_sealed);
    let plan = match (&observed.server, observed.data.control(), upstream) {
        (Server::Standby { upstream: Some(present) }, _, Some(upstream)) if present == upstream => {
            Plan::new(InstanceState::Standby)
        }
        (Server::Standby { .. }, Some(control), Some(upstream)) => {
            retarget(observed, view, control, upstream)
        }
        (Server::Standby { .. }, ..) => {
            Plan::new(if is_sealed { InstanceState::Sealed } else { InstanceState::Standby })
        }
        (_, None, Some(primary)) => {
            Plan::with(InstanceState::Clone, Command::Clone { primary: primary.to_owned() })
        }
        (_, Some(control), Some(primary)) => start(view, control, primary),
        // Tells the operator what the member has.
        (_, Some(_), None) if is_sealed => {
            Plan::with(InstanceState::Hold, Command::StartStandby { upstream: None })
        }
        (_, _, None) => Plan::new(InstanceState::Hold),
    };
    // A plan that stops PostgreSQL says itself what happens to the Lease.
    let stops = matches!(plan.command, Some(Command::Stop(_)));
    if stops { plan } else { Plan { lease: observed.release(), ..plan } }
}

/// Plans the change of the upstream of a standby that runs. It can only move along its history.
fn retarget(observed: &Observed, view: &ClusterView, control: &ControlData, upstream: &str) -> Plan {
    let Some(history) = &view.primary_history else { return Plan::new(InstanceState::Standby) };
    match ancestry(&control.history, control.end, history) {
        Ancestry::Ancestor => {
            Plan::with(InstanceState::Standby, Command::Follow { upstream: upstream.to_owned() })
        }
        Ancestry::Diverged(_) | Ancestry::Unrelated => observed.stop(InstanceState::Hold, None),
    }
}

/// Plans the start of a standby whose WAL is part of the primary's history, or gets so.
fn start(view: &ClusterView, control: &ControlData, primary: &str) -> Plan {
    let Some(history) = &view.primary_history else { return Plan::new(InstanceState::Hold) };
    let primary = primary.to_owned();
    match ancestry(&control.history, control.end, history) {
        Ancestry::Ancestor => {
            Plan::with(InstanceState::Standby, Command::StartStandby { upstream: Some(primary) })
        }
        Ancestry::Diverged(_) => Plan::with(InstanceState::Rewind, Command::Rewind { primary }),
        Ancestry::Unrelated => Plan::problem(Problem::Unrelated),
    }
}
