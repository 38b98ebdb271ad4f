//! The words that stand in conditions and Events for programs to read. The page of the kind has them all.

/// Condition: something is left to do or to wait for.
pub const PROGRESSING: &str = "Progressing";
/// Condition: pods could not be made, deleted, adopted or released.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

/// All pods are ready, and have been for as long as was asked.
pub const COMPLETE: &str = "Complete";
/// The number of pods is about to change.
pub const SCALING: &str = "Scaling";
/// Some pods are not ready.
pub const PODS_NOT_READY: &str = "PodsNotReady";
/// All pods are ready, and not yet for as long as was asked.
pub const MIN_READY_SECONDS: &str = "MinReadySeconds";
/// Nothing stands in the way.
pub const NO_FAILURE: &str = "NoFailure";
/// A pod was refused; a ReplicaSet's word. Also an Event.
pub const FAILED_CREATE: &str = "FailedCreate";
/// A surplus pod could not be deleted; a ReplicaSet's word. Also an Event.
pub const FAILED_DELETE: &str = "FailedDelete";
/// A pod could not be adopted or released. Also an Event.
pub const FAILED_ADOPT: &str = "FailedAdopt";
/// Event: the status could not be written.
pub const FAILED_STATUS: &str = "FailedStatus";
/// Event: the PodSet cannot own pods.
pub const NO_OWNER: &str = "NoOwner";
/// Event: pods were made.
pub const SUCCESSFUL_CREATE: &str = "SuccessfulCreate";
/// Event: surplus pods were deleted.
pub const SUCCESSFUL_DELETE: &str = "SuccessfulDelete";
