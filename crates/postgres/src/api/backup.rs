//! Where a cluster archives, and when it makes backups.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Matches the names of objects.
const NAME: &str = "self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')";

/// Version 17 is the first that makes incremental backups.
pub(super) const INCREMENTAL: &str = "!has(self.spec.backup) || !has(self.spec.backup.schedules) \
     || !self.spec.backup.schedules.exists(schedule, schedule.type == 'Incremental') || !has(self.spec.version) \
     || (type(self.spec.version) == int ? self.spec.version : int(string(self.spec.version).split('.')[0])) >= 17";

/// backup decides where WAL and base backups are kept, and when backups are made.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Backup {
    /// objectStore is where WAL and backups are kept.
    pub object_store: BackupStore,

    /// wal decides how WAL is archived.
    #[serde(default)]
    pub wal: WalArchiving,

    /// schedules decide when backups are made.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub schedules: Vec<BackupSchedule>,

    /// retention decides how long backups are kept. Without it, they are kept for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<BackupRetention>,
}

/// objectStore is a bucket of a server that speaks the protocol of S3.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupStore {
    /// url names the bucket and a prefix in it, such as s3://backups/eu. Clusters can share it.
    #[schemars(length(max = 600))]
    #[x_kube(
        validation = Rule::new("self.matches('^s3://[a-z0-9][-a-z0-9.]{1,61}[a-z0-9](/[-A-Za-z0-9._=]+)*/?$')")
            .message("url must be s3:// with a bucket and a prefix, such as s3://backups/eu"),
        validation = Rule::new("!self.contains('..') && !self.contains('/./') && !self.endsWith('/.')")
            .message("url must not contain '..', or '.' as a part of the prefix")
    )]
    pub url: String,

    /// endpoint is the URL of the server. Defaults to that of AWS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 300))]
    #[x_kube(validation = Rule::new("self.matches('^https?://[-A-Za-z0-9.:\\\\[\\\\]]+/?$')")
        .message("endpoint must be http:// or https:// with a host and an optional port, without a path"))]
    pub endpoint: Option<String>,

    /// region is the region of the bucket. Defaults to us-east-1, which other servers than AWS accept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(validation = Rule::new("self.matches('^[-a-z0-9]+$')")
        .message("region must contain only lower case letters, digits, and '-'"))]
    pub region: Option<String>,

    /// credentials are the keys of Secrets that contain the key of the object store. The members read
    /// them as files, and notice a change within about a minute.
    pub credentials: BackupCredentials,

    /// caSecret is the key of a Secret with the certificates of the authorities that the server's
    /// certificate can have, in PEM. Defaults to the authorities of Mozilla.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret: Option<SecretKey>,

    /// serverName is the first part of the keys in the bucket. Defaults to the name of the
    /// PostgresCluster and eight digits of its UID. Two clusters cannot have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$')")
        .message("serverName must be a DNS subdomain in lower case"))]
    pub server_name: Option<String>,
}

/// Secrets with the key of an object store.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupCredentials {
    /// accessKeyID is the key of a Secret with the identifier of the access key.
    #[serde(rename = "accessKeyID")]
    pub access_key_id: SecretKey,

    /// secretAccessKey is the key of a Secret with the secret of the access key.
    pub secret_access_key: SecretKey,
}

/// A key of a Secret in the namespace of the cluster.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretKey {
    /// name is the name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new(NAME).message("name must be the name of a Secret"))]
    pub name: String,

    /// key is the key in the Secret.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[-._a-zA-Z0-9]+$')").message("key must be a key of a Secret"))]
    pub key: String,
}

/// wal decides how WAL is archived.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WalArchiving {
    /// timeoutSeconds is the time after which a segment is archived that is not full. A disaster can
    /// lose the writes of about this time.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 10, max = 86400))]
    pub timeout_seconds: u32,

    /// parallel is the number of segments that are archived at the same time.
    #[serde(default = "default_parallel")]
    #[schemars(range(min = 1, max = 16))]
    pub parallel: u32,
}

impl Default for WalArchiving {
    fn default() -> Self {
        Self { timeout_seconds: default_timeout(), parallel: default_parallel() }
    }
}

fn default_timeout() -> u32 {
    300
}

fn default_parallel() -> u32 {
    2
}

/// A schedule of backups.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupSchedule {
    /// name is the name of the schedule, which is part of the names of its PostgresBackups.
    #[schemars(length(min = 1, max = 20))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')")
        .message("name must contain only lower case letters, digits, and '-', and begin and end with a letter or a digit"))]
    pub name: String,

    /// cron is a cron expression of five fields: minute, hour, day of the month, month, and day of the
    /// week. For example, "0 3 * * *" is every day at 3:00.
    #[schemars(length(min = 9, max = 200))]
    #[x_kube(validation = Rule::new("self.matches('^[^ ]+ [^ ]+ [^ ]+ [^ ]+ [^ ]+$')")
        .message("cron must have five fields: minute, hour, day of the month, month, and day of the week"))]
    pub cron: String,

    /// timeZone is the time zone of cron, such as Europe/Berlin. Defaults to UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z0-9_+/-]+$')")
        .message("timeZone must be the name of a time zone, such as Europe/Berlin"))]
    pub time_zone: Option<String>,

    /// type decides what the backups contain. Incremental requires PostgreSQL 17.
    #[serde(default, rename = "type")]
    pub backup_type: BackupType,

    /// target decides which member makes the backup.
    #[serde(default)]
    pub target: BackupTarget,

    /// suspend stops the schedule. It misses nothing meanwhile, and begins again like a new one.
    #[serde(default)]
    pub suspend: bool,
}

/// What a backup contains.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BackupType {
    /// All data.
    #[default]
    Full,
    /// What has changed since the newest backup. A recovery needs that one too.
    Incremental,
}

/// Member that makes a backup.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BackupTarget {
    /// A standby that streams, or the primary if there is none.
    #[default]
    PreferStandby,
    /// The primary.
    Primary,
}

/// retention decides how long backups are kept. WAL is kept from the oldest of them on.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupRetention {
    /// days is the number of days that a recovery can go back. Without it, minimum alone decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 36500))]
    pub days: Option<u32>,

    /// minimum is the number of backups that are kept at least.
    #[serde(default = "default_minimum")]
    #[schemars(range(min = 1, max = 1000))]
    pub minimum: u32,
}

fn default_minimum() -> u32 {
    1
}
