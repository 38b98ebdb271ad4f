//! Condition types of a Memcached, and the reasons of its conditions and Events.

pub use operator_core::conditions::reasons::{
    AS_SPECIFIED, AWAITING_CLEANUP, BLOCKED, CREATED, DELETED, DELETING, DENIED, INVALID_OWNER,
    NAME_CONFLICT, PODS_NOT_READY, PROGRESS_DEADLINE_EXCEEDED, REPLICA_FAILURE, ROLLING_OUT,
    STATUS_UPDATE_FAILED, UPDATED, WRITE_FAILED,
};

/// Condition: the desired number of Pods is ready to serve.
pub const AVAILABLE: &str = "Available";
/// Condition: Pods are being created, replaced, or deleted.
pub const PROGRESSING: &str = "Progressing";
/// Condition: a failure needs the user's attention.
pub const DEGRADED: &str = "Degraded";
