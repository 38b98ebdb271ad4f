//! Condition types of a PodSet.

/// Condition: Pods remain to be created, deleted, or waited for.
pub const PROGRESSING: &str = "Progressing";
/// Condition: Pods could not be created, deleted, adopted, or released.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";
