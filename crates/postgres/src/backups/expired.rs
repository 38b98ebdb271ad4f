//! Which PostgresBackups are deleted. Pure functions.

use std::collections::BTreeMap;

use kube::ResourceExt;
use operator_core::kind::uid;

use super::{SCHEDULE_LABEL, first, is_of};
use crate::api::{PostgresBackup, PostgresBackupPhase as Phase, PostgresCluster};

/// Number of failed backups of a schedule, and of failed first backups, that are kept.
const FAILED: usize = 3;

/// Returns the backups whose objects are deleted. They are in the order in which they were created, and
/// `oldest` is the identifier of the oldest complete backup in the store.
///
/// The controller deletes only what it has created:
/// - backups that have left the store, and failed ones that began before the oldest backup there,
/// - failed backups of a schedule that left nothing in the store, after a scheduled one succeeded,
/// - failed first backups.
///
/// The last [`FAILED`] of the failed ones stay.
pub(super) fn expired<B: AsRef<PostgresBackup>>(
    cluster: &PostgresCluster,
    backups: impl DoubleEndedIterator<Item = B>,
    oldest: Option<&String>,
) -> Vec<B> {
    let mut failed: BTreeMap<Option<String>, usize> = BTreeMap::new();
    let mut has_succeeded = false;
    let mut expired = Vec::new();
    for backup in backups.rev() {
        let (object, status) = (backup.as_ref(), backup.as_ref().status.clone().unwrap_or_default());
        let schedule = object.labels().get(SCHEDULE_LABEL).cloned();
        let is_created = schedule.is_some() || first::number(cluster, &object.name_any()).is_some();
        if !is_created || !status.phase.is_final() || status.cluster_uid != uid(cluster) {
            continue;
        }
        let system = cluster.status.as_ref().and_then(|status| status.system_id);
        let has_left = is_of(status.system_id, system)
            && !status.key.is_empty()
            && oldest.is_some_and(|oldest| status.key < *oldest);
        let is_surplus = status.phase == Phase::Failed && {
            let later = failed.entry(schedule.clone()).or_default();
            *later = later.saturating_add(1);
            *later > FAILED && (schedule.is_none() || (status.key.is_empty() && has_succeeded))
        };
        has_succeeded |= schedule.is_some() && status.phase == Phase::Completed;
        // Identifiers have the order of their times.
        if has_left || is_surplus {
            expired.push(backup);
        }
    }
    expired
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::api::fixture::cluster;

    /// Returns a backup of the cluster. Without a key, nothing is in the store.
    fn backup(name: &str, schedule: Option<&str>, phase: &str, key: &str) -> Arc<PostgresBackup> {
        let labels: Value = schedule.map(|schedule| json!({ SCHEDULE_LABEL: schedule })).unwrap_or_default();
        let backup = json!({
            "apiVersion": "lukeb0nd.com/v1", "kind": "PostgresBackup",
            "metadata": {"name": name, "namespace": "shop", "labels": labels},
            "spec": {"clusterRef": {"name": "db"}},
            "status": {"phase": phase, "clusterUID": "u-1", "key": key},
        });
        Arc::new(serde_json::from_value(backup).unwrap())
    }

    fn names(backups: &[Arc<PostgresBackup>], oldest: Option<&str>) -> Vec<String> {
        let oldest = oldest.map(str::to_owned);
        let expired = expired(&cluster(&json!({})), backups.iter(), oldest.as_ref());
        expired.iter().map(|backup| backup.name_any()).collect()
    }

    #[test]
    fn backups_that_have_left_the_store_go_if_the_controller_created_them() {
        let backups = [
            backup("night-1", Some("night"), "Completed", "1"),
            backup("mine", None, "Completed", "1"),
            backup("db-recovered-u-1", None, "Completed", "1"),
            backup("night-2", Some("night"), "Failed", "2"),
            backup("night-3", Some("night"), "Completed", "3"),
            backup("night-4", Some("night"), "Running", "1"),
        ];
        assert_eq!(names(&backups, Some("3")), ["night-2", "db-recovered-u-1", "night-1"]);
        assert_eq!(names(&backups, None), [""; 0], "the primary has not listed the store");
    }

    #[test]
    fn failed_backups_of_a_schedule_go_after_a_scheduled_one_succeeded() {
        let failed = |number: u8| backup(&format!("night-{number}"), Some("night"), "Failed", "");
        let mut backups: Vec<_> = (1..=5).map(failed).collect();
        assert_eq!(names(&backups, None), [""; 0], "they tell how long it has failed");
        backups.push(backup("noon-1", Some("noon"), "Completed", "9"));
        assert_eq!(names(&backups, None), ["night-2", "night-1"]);
        backups.push(failed(6));
        assert_eq!(names(&backups, None), ["night-3", "night-2", "night-1"], "the last three stay");
        backups.insert(0, backup("night-0", Some("night"), "Failed", "5"));
        assert_eq!(names(&backups, None), ["night-3", "night-2", "night-1"], "it may be in the store");
        backups.insert(0, backup("mine", None, "Failed", ""));
        assert_eq!(names(&backups, None), ["night-3", "night-2", "night-1"], "a person created it");
    }

    #[test]
    fn last_three_failed_first_backups_stay() {
        let names_of_attempts =
            ["", "-2", "-3", "-4", "-5"].map(|number| format!("db-recovered-u-1{number}"));
        let backups = names_of_attempts.map(|name| backup(&name, None, "Failed", "7"));
        assert_eq!(names(&backups, None), ["db-recovered-u-1-2", "db-recovered-u-1"]);
    }
}
