//! Runs the manager on this machine, for development and benchmarks.
//!
//! [`crds`] installs the definitions, [`launch`] starts the manager on a test cluster, [`Webhooks`]
//! registers its webhooks by URL, and [`samples`] applies the samples.

pub mod crds;
pub mod launch;
mod register_webhooks;
mod restore_webhooks;
pub mod samples;

pub use register_webhooks::Webhooks;
pub use restore_webhooks::remove_leftovers;

/// Field manager of all writes.
pub const FIELD_MANAGER: &str = "ensemble";
