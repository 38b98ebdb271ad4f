//! The PostgresBackup API, `lukeb0nd.com/v1`: one base backup.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use postgres_model::{lsn::Lsn, system_identifier::SystemIdentifier, timeline::TimelineId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BackupStore, BackupTarget, BackupType};

/// spec describes a base backup. It cannot be changed.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "lukeb0nd.com",
    version = "v1",
    kind = "PostgresBackup",
    plural = "postgresbackups",
    shortname = "pgb",
    category = "ensemble",
    namespaced,
    status = "PostgresBackupStatus",
    derive = "PartialEq",
    doc = "Base backup of a PostgresCluster",
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.clusterRef.name"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
    printcolumn(name = "Member", type_ = "string", json_path = ".status.member"),
    printcolumn(name = "Bytes", type_ = "integer", json_path = ".status.bytes"),
    printcolumn(name = "Stopped", type_ = "date", json_path = ".status.stoppedAt"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Error", type_ = "string", json_path = ".status.error", priority = 1),
    validation = Rule::new("self.spec == oldSelf.spec")
        .message("spec cannot be changed; create another PostgresBackup")
)]
#[serde(rename_all = "camelCase")]
pub struct PostgresBackupSpec {
    /// clusterRef names the PostgresCluster, in the same namespace.
    pub cluster_ref: ClusterRef,

    /// type decides what the backup contains. Where an incremental backup cannot be made, a full one is, and
    /// status.fullReason says why.
    #[serde(default, rename = "type")]
    pub backup_type: BackupType,

    /// target decides which member makes the backup.
    #[serde(default)]
    pub target: BackupTarget,

    /// immediateCheckpoint begins with a checkpoint at full speed. Otherwise, the backup waits for one
    /// that is spread over several minutes, and disturbs the database less.
    #[serde(default)]
    pub immediate_checkpoint: bool,
}

/// A PostgresCluster.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterRef {
    /// name is the name of the PostgresCluster.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
}

/// status is the observed state of the PostgresBackup.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PostgresBackupStatus {
    /// phase summarizes the state of the backup.
    #[serde(default)]
    pub phase: PostgresBackupPhase,

    /// member is the name of the member that makes the backup.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub member: String,

    /// podUID is the UID of the member's Pod. Another Pod of the member does not continue the backup.
    #[serde(default, rename = "podUID", skip_serializing_if = "String::is_empty")]
    pub pod_uid: String,

    /// clusterUID is the UID of the PostgresCluster.
    #[serde(default, rename = "clusterUID", skip_serializing_if = "String::is_empty")]
    pub cluster_uid: String,

    /// systemID identifies the database.
    #[serde(default, rename = "systemID", skip_serializing_if = "Option::is_none")]
    pub system_id: Option<SystemIdentifier>,

    /// objectStore is where the backup is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_store: Option<BackupStore>,
    /// timeline is the timeline on which the backup began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<TimelineId>,

    /// beginLSN is the position from which a recovery replays WAL.
    #[serde(default, rename = "beginLSN", skip_serializing_if = "Option::is_none")]
    pub begin_lsn: Option<Lsn>,

    /// endLSN is the position up to which a recovery must replay WAL at least.
    #[serde(default, rename = "endLSN", skip_serializing_if = "Option::is_none")]
    pub end_lsn: Option<Lsn>,

    /// beginWAL is the first segment that a recovery needs.
    #[serde(default, rename = "beginWAL", skip_serializing_if = "String::is_empty")]
    pub begin_wal: String,

    /// endWAL is the last segment that a recovery needs at least.
    #[serde(default, rename = "endWAL", skip_serializing_if = "String::is_empty")]
    pub end_wal: String,

    /// startedAt is the time at which the backup began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,

    /// stoppedAt is the time at which the backup ended. A recovery can reach every later moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_at: Option<Time>,

    /// bytes is the number of bytes in the object store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<i64>,

    /// key is the identifier of the backup in the object store.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,

    /// basedOn is the identifier in the object store of the backup on which this one is based. A full backup
    /// has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub based_on: String,

    /// fullReason says why the backup is a full one, although its type is Incremental.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub full_reason: String,

    /// error says why the backup failed, or what it waits for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,

    /// observedGeneration is the generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// conditions are the latest observations: Ready, which is true when the backup is complete.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// Phase of a PostgresBackup.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PostgresBackupPhase {
    /// It has not begun.
    #[default]
    Pending,
    /// A member makes it.
    Running,
    /// Everything that a recovery needs is in the object store.
    Completed,
    /// It was given up.
    Failed,
}

impl PostgresBackupPhase {
    /// Returns whether the backup has ended.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}
