//! Status of a PostgresCluster.
//!
//! Most of it reports. `nextSerial`, `instances`, `primary`, and `bootstrap` also decide: the
//! controller stores a decision here before it acts on it, so that the next reconcile continues
//! after a crash.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use postgres_model::{lsn::Lsn, system_identifier::SystemIdentifier, timeline::TimelineId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MajorUpgradeStatus, RecoveryStatus, adoption::AdoptionStatus};

/// status is the observed state of the PostgresCluster.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PostgresClusterStatus {
    /// phase summarizes the state of the cluster.
    #[serde(default)]
    pub phase: Phase,

    /// reason says in one word why the cluster is in this phase.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,

    /// controlPaused is true while spec.paused stops the controller.
    #[serde(default)]
    pub control_paused: bool,

    /// observedGeneration is the generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// size is the number of members.
    #[serde(default)]
    pub size: i32,

    /// readyMembers is the number of ready members.
    #[serde(default)]
    pub ready_members: i32,

    /// selector is the label selector of the members' Pods.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub selector: String,

    /// members lists the names of the members.
    #[serde(default)]
    pub members: Members,

    /// instances lists the members with their state.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    #[serde(default)]
    pub instances: Vec<InstanceStatus>,

    /// nextSerial is the serial number of the next member. Serial numbers are never reused.
    #[serde(default = "first_serial")]
    #[schemars(range(min = 1))]
    pub next_serial: u32,

    /// primary says which member is the primary.
    #[serde(default)]
    pub primary: PrimaryStatus,

    /// systemID identifies the database on all volumes. It is set once the database exists.
    #[serde(default, rename = "systemID", skip_serializing_if = "Option::is_none")]
    pub system_id: Option<SystemIdentifier>,
    /// timelineClaimed is the timeline that the primary of this epoch has, or gets by its promotion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline_claimed: Option<TimelineId>,
    /// timelines lists the timelines of the database, from the first to that of the primary.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["number".into()]))]
    #[serde(default)]
    #[schemars(length(max = 1000))]
    pub timelines: Vec<TimelineStatus>,
    /// sync is the synchronous replication that may be in force on the primary.
    #[serde(default)]
    pub sync: SyncStatus,
    /// reigns lists who may have acknowledged writes, and on which standbys these waited: the primary,
    /// its next configuration, and targets that were not confirmed. A failover needs a quorum of each.
    #[serde(default)]
    #[schemars(length(max = 1000))]
    pub reigns: Vec<ReignStatus>,
    /// bootstrap says on which volume the database may be created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<BootstrapStatus>,
    /// adoption says whose volumes the members use. It is set before any of them starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adoption: Option<AdoptionStatus>,
    /// recovery says from which archive the database comes. It is set before the first member starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryStatus>,

    /// majorUpgrade is the last upgrade of the data to another major version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub major_upgrade: Option<MajorUpgradeStatus>,

    /// currentVersion is the version of PostgreSQL that the members run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub current_version: String,

    /// targetVersion is the version of PostgreSQL that the members are about to run, if it is another.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target_version: String,

    /// lastBackup is the last backup that is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_backup: Option<LastBackupStatus>,

    /// firstRecoverable is the first moment that a recovery can reach: the end of the oldest backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_recoverable: Option<Time>,

    /// lastArchived is the name of the last segment of WAL that was archived. It is updated at most
    /// once a minute.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_archived: String,

    /// schedules says until when each schedule of spec.backup has made its backups.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<ScheduleStatus>,

    /// services are the names of the Services to connect to.
    #[serde(default)]
    pub services: ServiceNames,

    /// conditions are the latest observations: Available, DataSafe, Scaling, Upgrading,
    /// ConfigurationApplied, DatabasesApplied, StorageHealthy, VersionSupported, VolumesRetained, Archiving,
    /// BackupRecent, and Ready, which summarizes them.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

fn first_serial() -> u32 {
    1
}

/// Phase of a PostgresCluster.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// The first member creates the database.
    #[default]
    Creating,
    /// The cluster has a primary.
    Running,
    /// The primary has failed, and another member takes its place.
    FailingOver,
    /// Another member takes the place of the primary, on request.
    SwitchingOver,
    /// The members are replaced one after the other, because the spec has changed.
    Upgrading,
    /// All members are stopped, because the spec says so.
    Hibernated,
    /// The database is recovered from an archive, or the members of a former cluster are compared, of
    /// which the one with the most rows becomes the primary.
    Recovering,
}

/// Names of the members.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Members {
    /// ready lists the ready members.
    #[serde(default)]
    pub ready: Vec<String>,

    /// unready lists the other members.
    #[serde(default)]
    pub unready: Vec<String>,
}

/// State of a member.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceStatus {
    /// name is the name of the member, of its Pod, and of its PersistentVolumeClaim.
    pub name: String,

    /// serial is the serial number of the member.
    pub serial: u32,

    /// role is the role of the member.
    #[serde(default)]
    pub role: Role,

    /// ready is true if the member's Pod is ready.
    #[serde(default)]
    pub ready: bool,

    /// joined is true once the member has been ready.
    #[serde(default)]
    pub joined: bool,

    /// leaving is true for a member that is being removed.
    #[serde(default)]
    pub leaving: bool,

    /// node is the node on which the member runs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,

    /// address is the address of the member's Pod.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// slot is true if the member uses a replication slot, because the primary has one for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub slot: bool,
    /// volumeUID is the UID of the member's PersistentVolumeClaim. A claim with another UID is not
    /// the volume of this member, and never used for it.
    #[serde(default, rename = "volumeUID", skip_serializing_if = "String::is_empty")]
    pub volume_uid: String,
}

/// Role of a member.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The member accepts writes.
    Primary,
    /// The member follows the primary.
    #[default]
    Replica,
}

impl Role {
    /// Returns the value in the API, which is also that of the label.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Replica => "replica",
        }
    }
}

/// The primary, and the member that is to become it.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PrimaryStatus {
    /// current is the name of the primary. Empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub current: String,

    /// target is the name of the member that may be primary.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub target: String,

    /// epoch counts the decisions about the target.
    #[serde(default)]
    pub epoch: i64,

    /// expiredLease is the resource version of the Lease if it had expired when the target was chosen.
    /// The target takes the Lease at once if it still has this version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub expired_lease: String,

    /// switchover is the request for a switchover that has been acted on, until its annotation is gone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub switchover: String,

    /// fenced is true from the moment at which the primary was fenced until it leads again.
    #[serde(default)]
    pub fenced: bool,
}

/// Timeline of a database. It begins with a promotion.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimelineStatus {
    /// number is the number of the timeline.
    pub number: TimelineId,
    /// forkLSN is where the timeline leaves the one before it in the list. The first timeline has none.
    #[serde(default, rename = "forkLSN", skip_serializing_if = "Option::is_none")]
    pub fork_lsn: Option<Lsn>,
    /// member is the name of the member that began the timeline.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub member: String,
    /// epoch is the number of the decision for that member.
    #[serde(default)]
    pub epoch: i64,
}

/// Synchronous replication. Only the controller changes it, and a change has two steps: both
/// configurations are stored, the primary applies the pending one, and then only that one is stored.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SyncStatus {
    /// number is how many of the members a commit waits for.
    #[serde(default)]
    pub number: u32,
    /// members lists the standbys that a commit waits for.
    #[serde(default)]
    pub members: Vec<String>,
    /// pendingNumber is the number of the configuration that the primary is to apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_number: Option<u32>,
    /// pendingMembers lists the standbys of the configuration that the primary is to apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_members: Vec<String>,
}

/// A member that may have acknowledged writes as the primary, with its synchronous replication.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReignStatus {
    /// primary is the name of the member.
    pub primary: String,
    /// number is how many of the members a commit waited for.
    #[serde(default)]
    pub number: u32,
    /// members lists the standbys that a commit waited for.
    #[serde(default)]
    pub members: Vec<String>,
}

/// Permission to create the database. It is given once for each cluster.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapStatus {
    /// volumeUID is the UID of the PersistentVolumeClaim on which the database is created.
    #[serde(rename = "volumeUID")]
    pub volume_uid: String,

    /// done is true once the database exists. From then on, no database is ever created.
    #[serde(default)]
    pub done: bool,
}

/// A complete backup.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastBackupStatus {
    /// name is the name of the PostgresBackup.
    pub name: String,

    /// key is the identifier of the backup in the object store.
    pub key: String,

    /// stoppedAt is the time at which the backup ended.
    pub stopped_at: Time,

    /// systemID identifies the database of the backup. An upgrade to another major version makes another
    /// database.
    #[serde(default, rename = "systemID", skip_serializing_if = "Option::is_none")]
    pub system_id: Option<SystemIdentifier>,
}

/// State of a schedule.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleStatus {
    /// name is the name of the schedule.
    pub name: String,

    /// lastTime is the time up to which the backups of the schedule have been created.
    pub last_time: Time,
}

/// Names of the Services of a cluster.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceNames {
    /// rw is the Service of the primary.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rw: String,

    /// ro is the Service of the replicas.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ro: String,

    /// r is the Service of all members.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub r: String,
}
