//! The plan of the target.

use std::cmp::Ordering;

use super::{
    ClusterView, Command, ControlData, LeaseIntent, MAX_FAILED_STARTS, Observed, Plan, Problem, Server,
};
use crate::report::InstanceState;

/// Plans the next step of the member that may be the primary.
pub(super) fn plan(observed: &Observed, view: &ClusterView) -> Plan {
    let Some(control) = observed.data.control() else { return create(observed, view) };
    // The Lease of an older epoch says nothing about this one: other members may have been sealed.
    if observed.holds_lease() && !observed.holds_lease_of(view.epoch) {
        return observed.stop(InstanceState::Hold, None);
    }
    if observed.server.is_primary() {
        return Plan { lease: observed.keep_or_renew(), ..Plan::new(InstanceState::Primary) };
    }
    let next = observed.unless_hopeless(view, towards_primary(observed, view, control));
    // Whoever cannot lead leaves the Lease to others.
    if next.problem.is_some() {
        return Plan { lease: observed.release(), ..next };
    }
    if !observed.holds_lease() {
        let state = observed.server.state(observed.volume.sealed_epoch.is_some());
        let lease = LeaseIntent::Acquire { epoch: view.epoch, expired: view.expired_lease.clone() };
        return Plan { lease, ..Plan::new(state) };
    }
    Plan { lease: LeaseIntent::Renew, ..next }
}

impl Observed {
    /// Replaces a start that has failed before by a problem, if there are other members.
    fn unless_hopeless(&self, view: &ClusterView, plan: Plan) -> Plan {
        let starts = matches!(plan.command, Some(Command::StartPrimary | Command::StartStandby { .. }));
        let is_hopeless = starts && view.fencing && self.failed_starts >= MAX_FAILED_STARTS;
        if is_hopeless { Plan::problem(Problem::DoesNotStart) } else { plan }
    }
}

/// Plans the creation of the database, if the operator has named this volume for it.
fn create(observed: &Observed, view: &ClusterView) -> Plan {
    let may_create = !view.recovers
        && view.create_on.as_ref() == Some(&observed.volume_uid)
        && view.system_identifier.is_none()
        && observed.volume.system_identifier.is_none();
    if may_create {
        Plan::with(InstanceState::Init, Command::CreateDatabase)
    } else {
        Plan { lease: observed.release(), ..Plan::problem(Problem::TargetWithoutData) }
    }
}

/// Plans the next step towards a primary on the timeline of the epoch, for a holder of the Lease.
///
/// Only the member that began a timeline writes on it. Any other is promoted to a new one first.
fn towards_primary(observed: &Observed, view: &ClusterView, control: &ControlData) -> Plan {
    let volume = &observed.volume;
    let began_here = [volume.own_timeline, volume.promotion_begun].contains(&Some(view.timeline));
    let was_begun = volume.promotion_begun.is_some_and(|begun| begun >= view.timeline);
    let is_down = observed.server == Server::Down;
    match control.history.timeline().cmp(&view.timeline) {
        Ordering::Greater => Plan::problem(Problem::LaterTimeline),
        Ordering::Equal if !began_here => Plan::problem(Problem::TimelineOfAnother),
        Ordering::Equal if is_down => Plan::with(InstanceState::Primary, Command::StartPrimary),
        // A standby on its own timeline has to start again, without `standby.signal`.
        Ordering::Equal => observed.stop(InstanceState::Hold, None),
        Ordering::Less if was_begun => Plan::problem(Problem::InterruptedPromotion),
        Ordering::Less if is_down => {
            Plan::with(InstanceState::Hold, Command::StartStandby { upstream: None })
        }
        // It has started again, and replays up to the end of its recovery once more.
        Ordering::Less if volume.recovery.is_some() && !observed.recovered => {
            Plan::new(InstanceState::Promoting)
        }
        Ordering::Less => Plan::with(InstanceState::Promoting, Command::Promote { timeline: view.timeline }),
    }
}
