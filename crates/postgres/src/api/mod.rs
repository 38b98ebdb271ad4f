//! The PostgresCluster API, `lukeb0nd.com/v1`.

#![allow(unreachable_pub, reason = "KubeSchema writes a hidden copy of each struct, which nothing can reach")]
#![allow(
    clippy::struct_excessive_bools,
    reason = "each is a choice of its own, and the hidden copies have them too"
)]

mod adoption;
mod backup;
mod bootstrap;
mod databases;
#[cfg(test)]
pub(crate) mod fixture;
mod monitoring;
mod network;
mod parameters;
mod postgres_backup;
mod recovery;
mod replication;
mod slots;
mod status;
mod storage;
mod updates;
mod upgrade;

use k8s_openapi::api::core::v1::{ResourceRequirements, Toleration, TopologySpreadConstraint};
use kube::{CustomResource, KubeSchema};
use postgres_model::{
    databases::{DeclaredDatabase, DeclaredRole},
    parameters::Parameters,
    version::VersionSpec,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use adoption::{AdoptionStatus, FormerVolumes};
pub use backup::{
    Backup, BackupCredentials, BackupRetention, BackupSchedule, BackupStore, BackupTarget, BackupType,
    SecretKey, WalArchiving,
};
pub use bootstrap::{Bootstrap, Initdb};
pub use monitoring::Monitoring;
pub use network::NetworkAccess;
pub use postgres_backup::{
    ClusterRef, PostgresBackup, PostgresBackupPhase, PostgresBackupSpec, PostgresBackupStatus,
};
pub use recovery::{Recovery, RecoverySource, RecoveryStatus, RecoveryTarget};
pub use replication::{Durability, Failover, Synchronous};
pub use slots::ReplicationSlots;
pub use status::{
    BootstrapStatus, InstanceStatus, LastBackupStatus, Members, Phase, PostgresClusterStatus, PrimaryStatus,
    ReignStatus, Role, ScheduleStatus, ServiceNames, SyncStatus, TimelineStatus,
};
pub use storage::{AccessMode, Retention, RetentionPolicy, Storage};
pub use updates::{PrimaryUpdate, Updates};
pub(crate) use upgrade::major;
pub use upgrade::{MajorUpgradeStatus, MajorVersionUpdate};

/// spec is the desired state of the PostgresCluster.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "lukeb0nd.com",
    version = "v1",
    kind = "PostgresCluster",
    plural = "postgresclusters",
    shortname = "pgc",
    category = "ensemble",
    namespaced,
    status = "PostgresClusterStatus",
    derive = "PartialEq",
    doc = "Semi-automatic PostgreSQL cluster",
    scale(
        spec_replicas_path = ".spec.size",
        status_replicas_path = ".status.size",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Size", type_ = "integer", json_path = ".spec.size"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyMembers"),
    printcolumn(name = "Primary", type_ = "string", json_path = ".status.primary.current"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.currentVersion"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("!has(self.spec.synchronous.number) || self.spec.synchronous.number < self.spec.size")
        .message("spec.synchronous.number must be lower than spec.size, because the primary does not wait for itself"),
    validation = Rule::new(parameters::never_lowered())
        .message("spec.parameters: max_connections, max_locks_per_transaction, max_prepared_transactions, and max_worker_processes can only be raised, because standbys need values as high as those of the primary"),
    validation = Rule::new(slots::VERSION)
        .message("spec.replicationSlots.synchronizeLogical requires PostgreSQL 17 or newer"),
    validation = Rule::new(slots::WAL_LEVEL)
        .message("spec.parameters.wal_level must be logical if spec.replicationSlots.synchronizeLogical is true"),
    validation = Rule::new(backup::INCREMENTAL)
        .message("spec.backup.schedules: the type Incremental requires PostgreSQL 17 or newer"),
    validation = Rule::new(databases::NOT_THE_OWNER)
        .message("spec.roles must not contain the role of spec.bootstrap.initdb.owner, which the manager looks after"),
    validation = Rule::new(databases::APPLICATION)
        .message("the entry of spec.bootstrap.initdb.database in spec.databases must not be Absent or have another owner"),
    validation = Rule::new("size(self.metadata.name) <= 50")
        .message("a PostgresCluster's name may have at most 50 characters, so that the names of its Pods and Services are valid"),
    validation = Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')")
        .message("a PostgresCluster's name must begin with a letter and contain only lower case letters, digits, and '-', because its Services are named after it")
)]
#[serde(rename_all = "camelCase")]
pub struct PostgresClusterSpec {
    /// size is the number of members, the primary included, from 1 to 9.
    #[serde(default = "default_size")]
    #[schemars(range(min = 1, max = 9))]
    pub size: i32,

    /// version is the version of PostgreSQL: a major version such as 17, or an exact version such as
    /// "17.6". A new cluster with a version before 14 runs the manager's default version, and the
    /// condition VersionSupported says so. Defaults to the manager's default version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("type(self) == int ? self >= 1 && self <= 999 : string(self).matches('^[0-9]{1,3}([.][0-9]{1,3}){0,2}$')")
        .message("version must be a version of PostgreSQL, such as 17, \"17.6\", or \"9.6.3\""))]
    pub version: Option<VersionSpec>,

    /// image is an image of PostgreSQL to use instead of the manager's. It must contain the major
    /// version of version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    #[x_kube(validation = Rule::new("self.matches('^[^ \\t\\r\\n]+$')").message("an image's name must not contain whitespace"))]
    pub image: Option<String>,

    /// paused stops all actions of the controller, including failover. It still updates the status.
    #[serde(default)]
    pub paused: bool,

    /// hibernated stops all members and deletes their Pods. Their volumes stay, and the members start again
    /// with their data when it is false.
    #[serde(default)]
    pub hibernated: bool,

    /// nodeSelector contains the labels that the nodes of the members must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,

    /// tolerations are the tolerations of the members' Pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub tolerations: Vec<Toleration>,

    /// priorityClassName is the priority class of the members' Pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub priority_class_name: Option<String>,

    /// topologySpreadConstraints replace the default constraints of the members' Pods, which spread
    /// them over zones and nodes if possible.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,

    /// antiAffinity requires a node of its own for each member. By default, members avoid a node with
    /// another member if possible.
    #[serde(default)]
    pub anti_affinity: bool,

    /// resources are the resources of the PostgreSQL container. Defaults to requests of 100m CPU and
    /// 256Mi memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,

    /// parameters are parameters of PostgreSQL, such as work_mem. Most values take effect at once;
    /// for others, the members are restarted one after the other. max_connections,
    /// max_locks_per_transaction, max_prepared_transactions, and max_worker_processes can only be
    /// raised. The default of shared_buffers is a quarter of the memory limit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 100), extend("additionalProperties" = {"type": "string", "maxLength": 1024}))]
    #[x_kube(
        validation = Rule::new(parameters::NAMES)
            .message("parameters must have names of PostgreSQL in lower case, such as work_mem or pg_stat_statements.track"),
        validation = Rule::new(parameters::not_reserved())
            .message("parameters must not contain parameters that the instance manager sets, or that could lose data: see the limits of spec.parameters in the documentation"),
        validation = Rule::new(parameters::VALUES)
            .message("parameters must not contain control characters"),
        validation = Rule::new(parameters::WAL_LEVEL)
            .message("parameters.wal_level must be replica or logical, which standbys need"),
        validation = Rule::new(parameters::SYNCHRONOUS_COMMIT)
            .message("parameters.synchronous_commit must be on or remote_apply; a session can choose less for itself"),
        validation = Rule::new(parameters::not_low())
            .message("parameters max_connections, max_locks_per_transaction, max_prepared_transactions, and max_worker_processes must be numbers that are not below the defaults of PostgreSQL")
    )]
    pub parameters: Parameters,

    /// bootstrap decides how the database is created. It cannot be changed.
    #[serde(default)]
    pub bootstrap: Bootstrap,

    /// roles lists roles of PostgreSQL, which the primary creates, changes, and drops. The role of the
    /// application is in bootstrap.initdb.owner.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(
        merge_strategy = ListMerge::Map(vec!["name".into()]),
        validation = Rule::new(databases::ROLE_NAMES)
            .message("the name of a role must begin with a lower case letter, contain only lower case letters, digits, and '_', not end with '_' or begin with pg_, and not be postgres, streaming_replica, ensemble_monitor, public, or none"),
        validation = Rule::new(databases::SECRETS)
            .message("passwordSecretName must be the name of a Secret, and may be given only if login is true"),
        validation = Rule::new(databases::MEMBERSHIPS)
            .message("memberOf must not contain the role itself")
    )]
    pub roles: Vec<DeclaredRole>,

    /// databases lists databases of PostgreSQL, which the primary creates, changes, and drops. The entry
    /// of the application's database can list its extensions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(
        merge_strategy = ListMerge::Map(vec!["name".into()]),
        validation = Rule::new(databases::DATABASE_NAMES)
            .message("the name of a database must begin with a lower case letter or '_', contain only lower case letters, digits, and '_', and not be postgres, template0, or template1")
    )]
    pub databases: Vec<DeclaredDatabase>,

    /// storage describes the volume of each member.
    #[serde(default)]
    pub storage: Storage,

    /// backup decides where WAL and base backups are kept, and when backups are made. Without it,
    /// nothing is archived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<Backup>,

    /// synchronous decides on how many standbys a commit waits.
    #[serde(default)]
    pub synchronous: Synchronous,

    /// replicationSlots decides which replication slots survive a failover.
    #[serde(default)]
    pub replication_slots: ReplicationSlots,

    /// failover decides when another member replaces the primary.
    #[serde(default)]
    pub failover: Failover,

    /// networkPolicy decides who may connect to PostgreSQL. By default, all Pods of the namespace.
    #[serde(default)]
    pub network_policy: NetworkAccess,

    /// monitoring adds metrics to those that each member serves.
    #[serde(default)]
    pub monitoring: Monitoring,

    /// updates decides how the members are replaced after a change of the spec.
    #[serde(default)]
    pub updates: Updates,

    /// retention decides what happens to volumes that are no longer used.
    #[serde(default)]
    pub retention: Retention,

    /// deletionProtection makes the API server refuse to delete the PostgresCluster.
    #[serde(default)]
    pub deletion_protection: bool,
}

fn default_size() -> i32 {
    3
}
