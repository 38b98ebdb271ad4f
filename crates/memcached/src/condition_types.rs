//! Condition types of a Memcached.

/// Condition: the desired number of Pods is ready to serve.
pub const AVAILABLE: &str = "Available";
/// Condition: Pods are being created, replaced, or deleted.
pub const PROGRESSING: &str = "Progressing";
/// Condition: a failure needs the user's attention.
pub const DEGRADED: &str = "Degraded";
