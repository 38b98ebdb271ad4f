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
    let plan = match (&observed.server, observed.data.control()) {
        (Server::Standby { upstream: present }, _) => reload(upstream, present.as_deref(), is_sealed),
        (_, None) => match upstream {
            Some(primary) => Plan::with(InstanceState::Clone, Command::Clone { primary: primary.to_owned() }),
            None => Plan::new(InstanceState::Hold),
        },
        (_, Some(control)) => start(upstream, view, control),
    };
    Plan { lease: observed.release(), ..plan }
}

/// Plans the change of the upstream of a standby that runs.
fn reload(upstream: Option<&str>, present: Option<&str>, is_sealed: bool) -> Plan {
    match upstream {
        Some(upstream) if present != Some(upstream) => {
            Plan::with(InstanceState::Standby, Command::Follow { upstream: upstream.to_owned() })
        }
        _ => Plan::new(if is_sealed { InstanceState::Sealed } else { InstanceState::Standby }),
    }
}

/// Plans the start of a standby whose WAL is part of the primary's history, or gets so.
fn start(upstream: Option<&str>, view: &ClusterView, control: &ControlData) -> Plan {
    let (Some(primary), Some(history)) = (upstream, &view.primary_history) else {
        return Plan::new(InstanceState::Hold);
    };
    let primary = primary.to_owned();
    match ancestry(&control.history, control.end, history) {
        Ancestry::Ancestor => {
            Plan::with(InstanceState::Standby, Command::StartStandby { upstream: Some(primary) })
        }
        Ancestry::Diverged(_) => Plan::with(InstanceState::Rewind, Command::Rewind { primary }),
        Ancestry::Unrelated => Plan::problem(Problem::Unrelated),
    }
}
