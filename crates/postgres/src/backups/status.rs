//! The status of a PostgresBackup. Pure functions.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use operator_core::conditions::{NewCondition, READY, set_conditions};
use postgres_model::report::{BackupPhase, BackupReport};

use super::progress::active;
use crate::{
    api::{PostgresBackup, PostgresBackupPhase as Phase, PostgresBackupStatus},
    membership::Membership,
    reasons,
};

/// Returns the status of a backup that has begun, and whose cluster was deleted.
pub(super) fn abandoned(backup: &PostgresBackup, now: Timestamp) -> PostgresBackupStatus {
    let known = backup.status.clone().unwrap_or_default();
    if active(backup).is_none() {
        return known;
    }
    let error = "the PostgresCluster was deleted before the backup was complete".to_owned();
    complete(backup, failed(known, error), now)
}

/// Returns the status of a backup that is given up.
pub(super) fn failed(status: PostgresBackupStatus, error: String) -> PostgresBackupStatus {
    PostgresBackupStatus { phase: Phase::Failed, error, ..status }
}

/// Completes a status with the time of the end and the conditions.
pub(super) fn complete(
    backup: &PostgresBackup,
    mut status: PostgresBackupStatus,
    now: Timestamp,
) -> PostgresBackupStatus {
    if status.phase.is_final() && status.stopped_at.is_none() {
        status.stopped_at = Some(Time(now));
    }
    status.observed_generation = backup.metadata.generation;
    let generation = backup.metadata.generation.unwrap_or_default();
    let known = backup.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
    status.conditions = set_conditions(&known, &[condition(&status)], generation, now);
    status
}

/// Returns the status of a backup whose member reports about it.
pub(super) fn describe(
    status: PostgresBackupStatus,
    report: &BackupReport,
    membership: &Membership,
) -> PostgresBackupStatus {
    let time = |text: &Option<String>| text.as_ref().and_then(|text| text.parse().ok()).map(Time);
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let waits = || format!("waiting until {} is archived", text(&report.end_wal));
    let (phase, error) = match report.phase {
        BackupPhase::Copying | BackupPhase::Unknown => (Phase::Running, String::new()),
        BackupPhase::WaitingForWal => (Phase::Running, waits()),
        BackupPhase::Completed => (Phase::Completed, String::new()),
        BackupPhase::Failed => (Phase::Failed, text(&report.error)),
    };
    PostgresBackupStatus {
        phase,
        error,
        system_id: membership.system_id,
        timeline: report.timeline,
        begin_lsn: report.begin_lsn,
        end_lsn: report.end_lsn,
        begin_wal: text(&report.begin_wal),
        end_wal: text(&report.end_wal),
        started_at: time(&report.started_at),
        stopped_at: time(&report.stopped_at),
        bytes: report.bytes.map(|bytes| bytes.try_into().unwrap_or(i64::MAX)),
        key: text(&report.id),
        based_on: text(&report.based_on),
        full_reason: text(&report.full_reason),
        ..status
    }
}

fn condition(status: &PostgresBackupStatus) -> NewCondition {
    let is_false = |reason, otherwise: &str| {
        let message = if status.error.is_empty() { otherwise } else { &status.error };
        NewCondition::is_false(READY, reason, message.to_owned())
    };
    match status.phase {
        Phase::Pending => is_false(reasons::BACKUP_WAITING, "the member is asked to begin"),
        Phase::Running => is_false(reasons::BACKUP_RUNNING, &format!("{} makes the backup", status.member)),
        Phase::Failed => is_false(reasons::BACKUP_FAILED, "the backup failed"),
        Phase::Completed => NewCondition::is_true(
            READY,
            reasons::BACKUP_DONE,
            format!("the backup {} is complete", status.key),
        ),
    }
}

#[cfg(test)]
mod tests {
    use operator_core::conditions::find;
    use serde_json::json;

    use super::*;

    #[test]
    fn backup_of_a_deleted_cluster_ends_once_it_has_begun() {
        let backup = |status| -> PostgresBackup {
            serde_json::from_value(json!({
                "apiVersion": "lukeb0nd.com/v1", "kind": "PostgresBackup",
                "metadata": {"name": "first", "namespace": "shop", "generation": 1},
                "spec": {"clusterRef": {"name": "db"}}, "status": status,
            }))
            .unwrap()
        };
        let now = "2026-11-25T10:00:00Z".parse().unwrap();
        for phase in ["Pending", "Running"] {
            let begun = json!({"phase": phase, "member": "db-1", "clusterUID": "u-1"});
            let status = abandoned(&backup(begun), now);
            assert_eq!((status.phase, status.stopped_at), (Phase::Failed, Some(Time(now))));
            let ready = find(&status.conditions, READY).unwrap();
            assert_eq!(ready.reason, reasons::BACKUP_FAILED);
            assert!(ready.message.contains("the PostgresCluster was deleted"), "{}", ready.message);
        }
        for other in [json!({"phase": "Pending"}), json!({"phase": "Completed", "member": "db-1"})] {
            let backup = backup(other);
            assert_eq!(Some(abandoned(&backup, now)), backup.status, "it waits, or has ended");
        }
    }
}
