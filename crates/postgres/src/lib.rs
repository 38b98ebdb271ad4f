//! The PostgresCluster controller: runs PostgreSQL with replicas.
//!
//! The decisions 29 to 41 in `docs/decisions` explain how it keeps acknowledged writes.
//!
//! The modules in the order in which a reconcile uses them:
//!
//! ```text
//! reconcile       the controller: permissions, settings, reconcile loop
//! api             the API types and their validation
//! event_log       a log line for each change of a PostgresCluster
//! version         the version and the image of PostgreSQL
//! build           pure: the desired objects
//! backups         reconciles PostgresBackups, creates those of the schedules and of recoveries, and
//!                 deletes old ones
//! live_owner      the cluster, read live before something is created for it
//! children        creates, updates, and deletes Services, budgets, and permissions
//! identities      certificates of the members and of the operator
//! secrets         reads and writes Secrets
//! passwords       the password of the application
//! status_client   client of the status API of the members
//! reports         what the members report
//! standbys        what the primary reports about its standbys
//! lease_ages      how long the Leases have not changed, and which expire
//! lease_state     pure: whether the primary holds its Lease
//! timers          how long observations have held
//! fence           the members that a person has fenced
//! resize_refusals volumes that must not grow
//! record          pure: what a volume says about its cluster
//! recovery        pure: from which archive a cluster recovers
//! membership      pure: the part of the status that decides
//! decide          pure: the next change of the membership, and the next writes
//! members         reads and writes the Pods and volumes of the members
//! claims          sizes of volumes
//! events          Events about members
//! status          pure: the reporting part of the status, and its conditions
//! deletion        deletes volumes with their cluster, behind a finalizer
//! metrics         gauges of the clusters, and durations of failovers
//! protection      the admission policy against deletions
//! error, reasons  errors, and the reasons in conditions and Events
//! condition_types types of the conditions
//! ```

mod api;
mod backups;
mod build;
mod children;
mod claims;
pub mod condition_types;
mod decide;
mod deletion;
mod error;
mod event_log;
mod events;
mod fence;
mod identities;
mod lease_ages;
mod lease_state;
mod live_owner;
mod members;
mod membership;
mod metrics;
mod passwords;
mod protection;
pub mod reasons;
mod reconcile;
mod record;
mod recovery;
mod reports;
mod resize_refusals;
mod secrets;
mod standbys;
mod status;
mod status_client;
mod timers;
mod version;

pub use api::{
    AccessMode, AdoptionStatus, Backup, BackupCredentials, BackupRetention, BackupSchedule, BackupStore,
    BackupTarget, BackupType, Bootstrap, BootstrapStatus, ClusterRef, Durability, Failover, FormerVolumes,
    Initdb, InstanceStatus, LastBackupStatus, MajorUpgradeStatus, MajorVersionUpdate, Members, NetworkAccess,
    Phase, PostgresBackup, PostgresBackupPhase, PostgresBackupSpec, PostgresBackupStatus, PostgresCluster,
    PostgresClusterSpec, PostgresClusterStatus, PrimaryStatus, PrimaryUpdate, Recovery, RecoverySource,
    RecoveryStatus, RecoveryTarget, ReignStatus, Retention, RetentionPolicy, Role, ScheduleStatus, SecretKey,
    ServiceNames, Storage, SyncStatus, Synchronous, TimelineStatus, Updates, WalArchiving,
};
pub use backups::SCHEDULE_LABEL;
pub use build::{
    CLUSTER_LABEL, CLUSTER_UID, FENCE, FORCE_PROMOTE, MEMBER_LABEL, PORT, RESTART, REVISION_LABEL,
    ROLE_LABEL, SWITCHOVER,
};
pub use deletion::FINALIZER;
pub use error::Error;
pub use fence::fence;
pub use postgres_model::{fence::Fence, version::VersionSpec};
pub use reconcile::{IMAGES, INSTANCE_IMAGE, PostgresClusterController};
pub use status_client::{ClientError, StatusClient, StatusConnection, StatusError};
