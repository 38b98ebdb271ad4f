//! The plan of a member that is not the target.

use super::{ClusterView, Command, ControlData, Observed, Plan, Problem, Server};
use crate::{
    report::InstanceState,
    timeline::{Ancestry, ancestry, fork},
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
        (Server::Standby { upstream: Some(present) }, Some(control), Some(upstream))
            if present == upstream =>
        {
            keep_following(observed, view, control)
        }
        (Server::Standby { .. }, Some(control), Some(upstream)) => {
            retarget(observed, view, control, upstream)
        }
        (Server::Standby { .. }, ..) => {
            Plan::new(if is_sealed { InstanceState::Sealed } else { InstanceState::Standby })
        }
        (_, None, Some(_)) if !observed.space.may_copy() => {
            Plan { state: InstanceState::DiskFull, ..Plan::problem(Problem::TooSmall) }
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

/// Plans the next step of a standby that receives WAL from the primary.
///
/// WAL of a former primary can have arrived after the upstream was changed. PostgreSQL then waits
/// forever for WAL that it can apply.
fn keep_following(observed: &Observed, view: &ClusterView, control: &ControlData) -> Plan {
    match relation(view, control) {
        Some(Ancestry::Diverged(_) | Ancestry::Unrelated) => observed.stop(InstanceState::Hold, None),
        Some(Ancestry::Ancestor) | None => Plan::new(InstanceState::Standby),
    }
}

/// Plans the change of the upstream of a standby that runs. It can only move along its history.
fn retarget(observed: &Observed, view: &ClusterView, control: &ControlData, upstream: &str) -> Plan {
    match relation(view, control) {
        Some(Ancestry::Ancestor) => {
            Plan::with(InstanceState::Standby, Command::Follow { upstream: upstream.to_owned() })
        }
        Some(Ancestry::Diverged(_) | Ancestry::Unrelated) => observed.stop(InstanceState::Hold, None),
        None => Plan::new(InstanceState::Standby),
    }
}

/// Plans the start of a standby whose WAL is part of the primary's history, or gets so.
fn start(view: &ClusterView, control: &ControlData, primary: &str) -> Plan {
    if view.primary_history.is_none() {
        return Plan::new(InstanceState::Hold);
    }
    let start = |upstream| Plan::with(InstanceState::Standby, Command::StartStandby { upstream });
    match relation(view, control) {
        Some(Ancestry::Ancestor) => start(Some(primary.to_owned())),
        Some(Ancestry::Diverged(_)) => {
            Plan::with(InstanceState::Rewind, Command::Rewind { primary: primary.to_owned() })
        }
        Some(Ancestry::Unrelated) => Plan::problem(Problem::Unrelated),
        // Recovers to the end of its WAL first.
        None => start(None),
    }
}

/// Returns the relation of the member's WAL to the history of the primary. Returns `None` while it is
/// not known.
fn relation(view: &ClusterView, control: &ControlData) -> Option<Ancestry> {
    let primary = view.primary_history.as_ref()?;
    if let Some(end) = control.end {
        return Some(ancestry(&control.history, end, primary));
    }
    match fork(&control.history, primary) {
        None => Some(Ancestry::Unrelated),
        Some(fork) => fork.lsn.is_none().then_some(Ancestry::Ancestor),
    }
}
