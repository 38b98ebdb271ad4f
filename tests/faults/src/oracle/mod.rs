//! Checks that a run converges and violates no invariant. Pure functions.

pub mod counts;
pub mod end_state;
pub mod invariants;
pub mod log;

/// Annotation for modifications that no controller reacts to.
pub const TOUCHED_ANNOTATION: &str = "faults.test/touched";
