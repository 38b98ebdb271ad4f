//! What the status says about an upgrade of the data to another major version.

use operator_core::conditions::NewCondition;

use super::Observation;
use crate::{
    api::{MajorUpgradeStatus, major},
    condition_types::{AVAILABLE, UPGRADING},
    membership::Membership,
    reasons,
    version::Served,
};

/// Returns whether the members are down for an upgrade, or the upgraded one is about to become the primary.
pub(super) fn is_upgrading(membership: &Membership) -> bool {
    let failover = &membership.failover;
    // Until it is the primary, the first entry is that of the database before the upgrade.
    let is_promoted =
        failover.current.is_some() || failover.reigns.iter().all(|reign| !reign.primary.is_empty());
    let is_done = membership.upgrade.as_ref().is_some_and(|upgrade| upgrade.done);
    membership.upgrade_in_progress().is_some() || (is_done && !is_promoted)
}

/// Returns the condition Available while no member takes writes.
pub(super) fn available(membership: &Membership) -> NewCondition {
    let message = membership.upgrade.as_ref().map(describe).unwrap_or_default();
    NewCondition::is_false(AVAILABLE, reasons::MAJOR_UPGRADE, message)
}

/// Returns the condition Upgrading, if the data are or will be upgraded.
pub(super) fn upgrading(observed: &Observation<'_>) -> Option<NewCondition> {
    let is_true = |message| NewCondition::is_true(UPGRADING, reasons::MAJOR_UPGRADE, message);
    if is_upgrading(observed.membership) {
        return observed.membership.upgrade.as_ref().map(describe).map(is_true);
    }
    let requested = observed.version.as_ref().ok().and_then(|Served { upgrade, .. }| upgrade.as_ref())?;
    let message = format!(
        "the upgrade from PostgreSQL {} to {} begins when all members are ready and as specified",
        requested.from, requested.to
    );
    Some(is_true(message))
}

fn describe(upgrade: &MajorUpgradeStatus) -> String {
    let MajorUpgradeStatus { from, to, member, started, done, .. } = upgrade;
    match (done, started) {
        (true, _) => {
            format!("the data of {member} are upgraded to PostgreSQL {to}, and it becomes the primary")
        }
        (false, true) => format!("pg_upgrade upgrades the data of {member} from PostgreSQL {from} to {to}"),
        (false, false) => format!(
            "the members stop, and {member} starts with the programs of PostgreSQL {to} to upgrade its data; to cancel, set spec.version to {}",
            major(from).unwrap_or_default()
        ),
    }
}
