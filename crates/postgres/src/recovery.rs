//! From which archive a cluster recovers. Pure.

use postgres_model::system_identifier::SystemIdentifier;

use crate::api::{
    BackupStore, PostgresBackup, PostgresBackupPhase, PostgresCluster, RecoverySource, RecoveryStatus,
};

/// Why a recovery cannot begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecoveryProblem {
    /// The PostgresBackup with this name does not exist.
    NoBackup(String),
    /// The PostgresBackup is in this phase.
    NotComplete(String, PostgresBackupPhase),
    /// The PostgresBackup does not say where it is.
    NoStore(String),
}

impl RecoveryProblem {
    /// Describes the problem, and what a person can do.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::NoBackup(name) => format!(
                "there is no PostgresBackup {name} in this namespace; create the cluster again with another backupName, or with spec.bootstrap.recovery.source"
            ),
            Self::NotComplete(name, phase) => format!(
                "the PostgresBackup {name} is in the phase {phase:?}; the recovery begins when it is Completed"
            ),
            Self::NoStore(name) => format!(
                "the status of the PostgresBackup {name} does not say where the backup is; create the cluster again with spec.bootstrap.recovery.source"
            ),
        }
    }
}

/// Returns from which archive a cluster recovers. `None`: it creates a new database. `backup` looks up a
/// PostgresBackup in the namespace of the cluster.
pub(crate) fn source<B: AsRef<PostgresBackup>>(
    cluster: &PostgresCluster,
    backup: impl Fn(&str) -> Option<B>,
) -> Option<Result<RecoveryStatus, RecoveryProblem>> {
    let recovery = cluster.spec.bootstrap.recovery.as_ref()?;
    if let Some(RecoverySource { object_store, system_id }) = recovery.source.clone() {
        return Some(Ok(from(object_store, system_id, String::new())));
    }
    let name = recovery.backup_name.clone()?;
    Some(match backup(&name) {
        Some(backup) => of_backup(name, backup.as_ref()),
        None => Err(RecoveryProblem::NoBackup(name)),
    })
}

fn of_backup(name: String, backup: &PostgresBackup) -> Result<RecoveryStatus, RecoveryProblem> {
    let status = backup.status.clone().unwrap_or_default();
    if status.phase != PostgresBackupPhase::Completed {
        return Err(RecoveryProblem::NotComplete(name, status.phase));
    }
    let object_store = status.object_store.ok_or(RecoveryProblem::NoStore(name))?;
    Ok(from(object_store, status.system_id, status.key))
}

/// Returns a recovery that has not begun.
fn from(object_store: BackupStore, system_id: Option<SystemIdentifier>, backup: String) -> RecoveryStatus {
    RecoveryStatus { object_store, system_id, backup, done: false, first_backup: String::new() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::api::fixture::cluster;

    fn store() -> Value {
        let secret = |key: &str| json!({"name": "store", "key": key});
        json!({
            "url": "s3://backups", "serverName": "db-12345678",
            "credentials": {"accessKeyID": secret("id"), "secretAccessKey": secret("key")},
        })
    }

    fn backup(status: &Value) -> Arc<PostgresBackup> {
        Arc::new(
            serde_json::from_value(json!({
                "apiVersion": "lukeb0nd.com/v1", "kind": "PostgresBackup", "metadata": {"name": "b"},
                "spec": {"clusterRef": {"name": "old"}}, "status": status,
            }))
            .unwrap(),
        )
    }

    fn of(recovery: &Value, found: Option<Value>) -> Option<Result<RecoveryStatus, RecoveryProblem>> {
        let cluster = cluster(&json!({"bootstrap": {"recovery": recovery}}));
        source(&cluster, |name| found.as_ref().filter(|_| name == "b").map(backup))
    }

    #[test]
    fn backup_says_where_the_archive_is() {
        assert!(source(&cluster(&json!({})), |_| None::<Arc<PostgresBackup>>).is_none());
        let complete = json!({
            "phase": "Completed", "key": "20261125T100000Z-00000001", "systemID": "7", "objectStore": store(),
        });
        let found = of(&json!({"backupName": "b"}), Some(complete)).unwrap().unwrap();
        assert_eq!(found.object_store.server_name.as_deref(), Some("db-12345678"));
        assert_eq!((found.backup.as_str(), found.system_id.unwrap().0), ("20261125T100000Z-00000001", 7));
        let direct = of(&json!({"source": {"objectStore": store()}}), None).unwrap().unwrap();
        assert_eq!((direct.backup.as_str(), direct.system_id), ("", None));
    }

    #[test]
    fn backup_that_cannot_be_used_is_a_problem_with_a_remedy() {
        let by_name = json!({"backupName": "b"});
        for (found, words) in [
            (None, "there is no PostgresBackup b"),
            (Some(json!({"phase": "Running"})), "in the phase Running"),
            (Some(json!({"phase": "Failed"})), "in the phase Failed"),
            (Some(json!({"phase": "Completed"})), "does not say where"),
        ] {
            let problem = of(&by_name, found).unwrap().unwrap_err();
            assert!(problem.describe().contains(words), "{problem:?}");
        }
    }
}
