//! What the status says about a recovery from an archive.

use operator_core::conditions::NewCondition;
use postgres_model::report::InstanceReport;

use super::Observation;
use crate::{condition_types::AVAILABLE, reasons};

/// Returns the condition Available of a cluster that recovers, and has no primary yet.
pub(super) fn available(observed: &Observation<'_>) -> NewCondition {
    let is_false = |reason, message: String| NewCondition::is_false(AVAILABLE, reason, message);
    if let Some(target) = &observed.membership.failover.target {
        let message = format!("the recovery has reached its end, and {target} becomes the primary");
        return is_false(reasons::RECOVERING, message);
    }
    let report = observed.reports.values().find(|report| report.recovery.is_some());
    let report = report.map(|report| (report, report.recovery.clone().unwrap_or_default()));
    let Some((report, recovery)) = report else {
        return is_false(reasons::RECOVERING, "the member that recovers the database starts".to_owned());
    };
    let member = &report.member;
    match recovery.failure.as_ref().or(report.problem.as_ref()) {
        Some(failure) => is_false(reasons::RECOVERY_FAILING, format!("{member}: {failure}")),
        None if recovery.replays => is_false(
            reasons::RECOVERING,
            format!("{member} replays WAL from the archive{}", position(report)),
        ),
        None => {
            let backup =
                recovery.backup.map_or_else(|| "a backup".to_owned(), |id| format!("the backup {id}"));
            is_false(reasons::RECOVERING, format!("{member} restores {backup}"))
        }
    }
}

/// Returns where the member is. It is in the report only once PostgreSQL answers.
fn position(report: &InstanceReport) -> String {
    report.positions.replayed.map_or_else(String::new, |lsn| format!(" and is at {lsn}"))
}
