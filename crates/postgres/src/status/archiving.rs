//! What the status says about the archive.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use operator_core::conditions::{NewCondition, find};
use postgres_model::report::ArchiveReport;

use super::Observation;
use crate::{
    api::{PostgresCluster, PostgresClusterStatus},
    backups::{last_of, with_later_times},
    condition_types::ARCHIVING,
    reasons,
};

/// True if WAL is archived.
///
/// While no primary reports, the condition stays as it is: a failover is no failure of the archive.
pub(super) fn archiving(cluster: &PostgresCluster, observed: &Observation<'_>) -> NewCondition {
    let is_false = |reason, message| NewCondition::is_false(ARCHIVING, reason, message);
    let is_true = |message| NewCondition::is_true(ARCHIVING, reasons::AS_SPECIFIED, message);
    let Some(backup) = &cluster.spec.backup else {
        return is_false(reasons::NOT_CONFIGURED, "spec.backup is not set: nothing is archived".to_owned());
    };
    match report(observed) {
        Some(ArchiveReport { failure: Some(failure), .. }) => {
            let reason = if failure.is_conflict { reasons::CONFLICT } else { reasons::FAILING };
            is_false(reason, failure.message.clone())
        }
        Some(report) if report.is_claimed => {
            is_true(format!("WAL is archived to {}", backup.object_store.url))
        }
        _ => known(cluster).unwrap_or_else(|| {
            is_false(reasons::RECONCILING, "no primary has used the object store yet".to_owned())
        }),
    }
}

/// Returns the last condition, unless it says that nothing is archived on purpose.
fn known(cluster: &PostgresCluster) -> Option<NewCondition> {
    let known = find(&cluster.status.as_ref()?.conditions, ARCHIVING)?;
    let reasons = [reasons::AS_SPECIFIED, reasons::FAILING, reasons::CONFLICT];
    let reason = reasons.into_iter().find(|reason| *reason == known.reason)?;
    let message = known.message.clone();
    Some(if known.status == "True" {
        NewCondition::is_true(ARCHIVING, reason, message)
    } else {
        NewCondition::is_false(ARCHIVING, reason, message)
    })
}

/// Updates what is known about the backups, and what the primary reports about the archive.
pub(super) fn update(observed: &Observation<'_>, status: &mut PostgresClusterStatus) {
    // The status can be newer than the one that was reconciled, and the object of its backup can be gone.
    let (known, found) = (status.last_backup.take(), observed.backups.last.clone());
    status.last_backup = last_of(known, found, status.system_id);
    status.schedules = with_later_times(observed.backups.schedules.clone(), &status.schedules);
    let upgrade = status.major_upgrade.as_mut().filter(|upgrade| upgrade.done);
    let attempt = upgrade.map(|upgrade| &mut upgrade.first_backup);
    let attempt = attempt.or_else(|| status.recovery.as_mut().map(|recovery| &mut recovery.first_backup));
    if let (Some(attempt), Some(first)) = (attempt, &observed.backups.first) {
        attempt.clone_from(first);
    }
    let Some(report) = report(observed) else { return };
    if let Some(last) = &report.last_archived {
        status.last_archived.clone_from(last);
    }
    if let Some(backups) = &report.backups {
        let first = backups.first_recoverable.as_deref().and_then(|first| first.parse().ok());
        status.first_recoverable = first.map(Time);
    }
}

/// Returns what the primary reports.
fn report<'a>(observed: &'a Observation<'_>) -> Option<&'a ArchiveReport> {
    let membership = observed.membership;
    let primary = membership.members.iter().find(|member| membership.is_primary(member.serial))?;
    observed.reports.get(&primary.serial)?.archive.as_ref()
}
