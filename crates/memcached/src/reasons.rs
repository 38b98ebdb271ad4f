//! Condition types and reasons, and Event reasons.

/// Condition: the desired number of Pods is ready to serve.
pub const AVAILABLE: &str = "Available";
/// Condition: Pods are being created, replaced, or deleted.
pub const PROGRESSING: &str = "Progressing";
/// Condition: a failure needs the user's attention.
pub const DEGRADED: &str = "Degraded";

/// The Memcached is as specified.
pub const AS_ASKED: &str = "AsAsked";
/// Fewer Pods are ready than desired.
pub const TOO_FEW_READY: &str = "TooFewReady";
/// A rollout is in progress.
pub const ROLLING_OUT: &str = "RollingOut";
/// No progress is possible until the failure in [`DEGRADED`] is resolved.
pub const BLOCKED: &str = "Blocked";
/// An object of the same name exists and has another owner.
pub const NAME_TAKEN: &str = "NameTaken";
/// An object of a deleted Memcached of the same name still exists.
pub const AWAITING_CLEANUP: &str = "AwaitingCleanup";
/// The API server denied a write: a quota, an admission policy, or a missing permission.
pub const REFUSED: &str = "Refused";
/// The Deployment could not create its Pods.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";
/// The Deployment exceeded its progress deadline.
pub const DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
/// A write to a child object failed. The controller retries.
pub const WRITE_FAILED: &str = "WriteFailed";
/// A write to the status failed. The controller retries.
pub const STATUS_FAILED: &str = "StatusFailed";
/// The Memcached cannot own objects.
pub const NO_OWNER: &str = "NoOwner";

/// Event: an object was created.
pub const CREATED: &str = "Created";
/// Event: an object was updated to match the spec.
pub const UPDATED: &str = "Updated";
/// Event: an object was deleted because the spec no longer needs it.
pub const DELETED: &str = "Deleted";
/// Event: the Memcached is being deleted with its child objects.
pub const DELETING: &str = "Deleting";
