//! Types of conditions, beside Ready.

/// Whether the replication is paused.
pub const CORDONED: &str = "Cordoned";
