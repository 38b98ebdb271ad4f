//! Condition types of a PodSet, and the reasons of its conditions and Events.

pub use operator_core::conditions::reasons::{
    AS_SPECIFIED, FAILED_ADOPT, FAILED_CREATE, FAILED_DELETE, INVALID_OWNER, MIN_READY_SECONDS, NO_FAILURE,
    PODS_NOT_READY, SCALING, STATUS_UPDATE_FAILED, SUCCESSFUL_CREATE, SUCCESSFUL_DELETE,
};

/// Condition: Pods remain to be created, deleted, or waited for.
pub const PROGRESSING: &str = "Progressing";
/// Condition: Pods could not be created, deleted, adopted, or released.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";
