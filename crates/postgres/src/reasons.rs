//! Reasons of the conditions and Events of a PostgresCluster.

pub use operator_core::conditions::reasons::{
    AS_SPECIFIED, AWAITING_CLEANUP, BLOCKED, DENIED, INVALID_OWNER, NAME_CONFLICT, PODS_NOT_READY, SCALING,
    STATUS_UPDATE_FAILED, WRITE_FAILED,
};

/// Condition: the primary has not become ready yet, or there is none.
pub const NO_PRIMARY: &str = "NoPrimary";
/// Condition: nothing has to be done.
pub const NOT_NEEDED: &str = "NotNeeded";
/// Condition: `spec.paused` stops the controller.
pub const PAUSED: &str = "Paused";
/// Condition: the version of the spec is too old, so the default version runs.
pub const END_OF_LIFE: &str = "EndOfLife";
/// Condition: the catalog of images does not contain the version of the spec.
pub const NOT_IN_CATALOG: &str = "NotInCatalog";
/// Condition: the volume of a member no longer exists.
pub const VOLUME_LOST: &str = "VolumeLost";
/// Condition: a volume has the name of a member's volume, but is another one.
pub const VOLUME_CONFLICT: &str = "VolumeConflict";
/// Condition: the volume of a member is being deleted.
pub const VOLUME_TERMINATING: &str = "VolumeTerminating";

/// Condition: the certificates of the cluster cannot be issued or used.
pub const CERTIFICATES_FAILED: &str = "CertificatesFailed";
/// Condition: the password in the Secret of the application cannot be used.
pub const INVALID_PASSWORD: &str = "InvalidPassword";
/// Condition: the primary has failed, and another member takes its place.
pub const FAILING_OVER: &str = "FailingOver";
/// Condition: the members that answer may lack acknowledged writes.
pub const NO_QUORUM: &str = "NoQuorum";
/// Condition: the member with the most WAL lacks more of it than the spec allows.
pub const ASYNC_LAG: &str = "AsyncLag";
/// Condition: a commit waits for fewer standbys than the spec says, or for none.
pub const SYNC_LOWERED: &str = "SyncLowered";
/// Condition: there is one member, and no copy of its data.
pub const SINGLE_MEMBER: &str = "SingleMember";
/// Condition: the spec forbids a failover.
pub const FAILOVER_DISABLED: &str = "FailoverDisabled";
/// Condition: a commit waits for no standby.
pub const ASYNCHRONOUS: &str = "Asynchronous";

/// Event: the primary has failed.
pub const FAILOVER_STARTED: &str = "FailoverStarted";
/// Event: another member has replaced the primary.
pub const FAILOVER_DONE: &str = "FailoverDone";
/// Event: the first member creates the database.
pub const SEED_LAUNCHED: &str = "SeedLaunched";
/// Event: a member has become ready for the first time.
pub const MEMBER_JOINED: &str = "MemberJoined";
/// Event: a member is removed because the size was lowered.
pub const MEMBER_REMOVED: &str = "MemberRemoved";
