//! Recovery of the database from the archive of another cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::KubeSchema;
use postgres_model::{lsn::Lsn, system_identifier::SystemIdentifier, timeline::TimelineId};
use serde::{Deserialize, Serialize};

use super::BackupStore;

/// recovery creates the database from a base backup and the archived WAL of another PostgresCluster,
/// which is only read.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.backupName) != has(self.source)")
        .message("recovery must have either backupName or source")
)]
pub struct Recovery {
    /// backupName is the name of a complete PostgresBackup in the same namespace, which is restored. It
    /// says where the archive is, also after its PostgresCluster was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub backup_name: Option<String>,

    /// source says where the archive is. The newest backup before the target is restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<RecoverySource>,

    /// target is where the recovery ends. Without a time, an lsn, or immediate, it ends where the
    /// archive ended when the backup was restored.
    #[serde(default)]
    pub target: RecoveryTarget,
}

/// source is the archive of another PostgresCluster.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecoverySource {
    /// objectStore is where the archive is. Its serverName is required: it is the name of the source in
    /// the bucket. Credentials that can only read suffice.
    #[x_kube(validation = Rule::new("has(self.serverName)")
        .message("objectStore.serverName is required: it is the first part of the keys in the bucket"))]
    pub object_store: BackupStore,

    /// systemID identifies the database, if the source has archived several under this name.
    #[serde(default, rename = "systemID", skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new(
        "self.matches('^[1-9][0-9]{0,19}$') && (size(self) < 20 || self <= '18446744073709551615')"
    )
    .message("systemID must be the decimal number that pg_controldata prints"))]
    pub system_id: Option<SystemIdentifier>,
}

/// target is where a recovery ends.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("(has(self.time) ? 1 : 0) + (has(self.lsn) ? 1 : 0) + (self.immediate ? 1 : 0) <= 1")
        .message("target can have only one of time, lsn, and immediate"),
    validation = Rule::new("!self.exclusive || has(self.time) || has(self.lsn)")
        .message("target.exclusive needs a time or an lsn")
)]
pub struct RecoveryTarget {
    /// time is the moment up to which transactions are recovered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new(
        "self >= timestamp('1970-01-01T00:00:00Z') && self < timestamp('9999-01-01T00:00:00Z')"
    )
    .message("time must be in the years 1970 to 9998"))]
    pub time: Option<MicroTime>,

    /// lsn is the position in the WAL up to which transactions are recovered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lsn: Option<Lsn>,

    /// immediate ends the recovery as soon as the data of the backup are consistent.
    #[serde(default)]
    pub immediate: bool,

    /// exclusive leaves out the transaction that is exactly at the target.
    #[serde(default)]
    pub exclusive: bool,

    /// timeline is the timeline of the source to recover to. Defaults to the newest one with WAL in the
    /// archive. An earlier one leads to a moment that a failover of the source has left behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<TimelineId>,
}

/// Where the database comes from.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecoveryStatus {
    /// objectStore is where the archive of the source is.
    pub object_store: BackupStore,

    /// systemID identifies the database of the source, if it is known.
    #[serde(default, rename = "systemID", skip_serializing_if = "Option::is_none")]
    pub system_id: Option<SystemIdentifier>,

    /// backup is the identifier of the backup to restore. Empty: the newest before the target.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub backup: String,

    /// done is true once the recovered member is the primary.
    #[serde(default)]
    pub done: bool,

    /// firstBackup is the name of the last PostgresBackup that was created after the recovery, because the
    /// cluster archives. Another one follows if it fails, and none if it is deleted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub first_backup: String,
}
