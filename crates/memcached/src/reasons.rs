//! The words that stand in conditions and Events for programs to read.

/// Condition: as many pods as asked for are ready to serve.
pub const AVAILABLE: &str = "Available";
/// Condition: pods are being made, replaced or taken away.
pub const PROGRESSING: &str = "Progressing";
/// Condition: something is wrong that a person has to look into.
pub const DEGRADED: &str = "Degraded";

/// All is as the spec asks.
pub const AS_ASKED: &str = "AsAsked";
/// Fewer pods are ready than the size asks for.
pub const TOO_FEW_READY: &str = "TooFewReady";
/// The pods are being brought to what the spec asks.
pub const ROLLING_OUT: &str = "RollingOut";
/// Nothing can be done before what [`DEGRADED`] tells of is settled.
pub const BLOCKED: &str = "Blocked";
/// An object of the cache's name belongs to somebody else.
pub const NAME_TAKEN: &str = "NameTaken";
/// An object of a deleted cache of the same name is not gone yet.
pub const AWAITING_CLEANUP: &str = "AwaitingCleanup";
/// The API server refused to make or change an object: a quota, an admission policy, a right that is missing.
pub const REFUSED: &str = "Refused";
/// The Deployment could not make its pods.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";
/// The Deployment gave up waiting for its pods to become ready.
pub const DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
/// An object could not be made or changed for now; it is tried again.
pub const WRITE_FAILED: &str = "WriteFailed";
/// The status could not be written; it is tried again.
pub const STATUS_FAILED: &str = "StatusFailed";
/// The cache cannot own objects.
pub const NO_OWNER: &str = "NoOwner";

/// Event: an object was made.
pub const CREATED: &str = "Created";
/// Event: an object was brought to what the spec asks.
pub const UPDATED: &str = "Updated";
/// Event: an object was deleted because it is no longer wanted.
pub const DELETED: &str = "Deleted";
/// Event: the cache is being deleted and its objects go with it.
pub const DELETING: &str = "Deleting";
