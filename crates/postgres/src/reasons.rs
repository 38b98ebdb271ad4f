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

/// Event: the first member creates the database.
pub const SEED_LAUNCHED: &str = "SeedLaunched";
/// Event: a member has become ready for the first time.
pub const MEMBER_JOINED: &str = "MemberJoined";
/// Event: a member is removed because the size was lowered.
pub const MEMBER_REMOVED: &str = "MemberRemoved";
