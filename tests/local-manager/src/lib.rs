//! Runs the manager on this machine, for development and benchmarks.
//!
//! [`crds`] installs the definitions, [`launch`] starts the manager on a test cluster, [`Webhooks`]
//! registers its webhooks by URL, [`proxy`] starts the proxy of Tenants, [`in_cluster`] installs its image on real nodes, and [`samples`]
//! applies the samples.

pub mod crds;
pub mod in_cluster;
pub mod launch;
pub mod proxy;
mod register_webhooks;
mod restore_webhooks;
pub mod samples;

pub use register_webhooks::Webhooks;
pub use restore_webhooks::remove_leftovers;

/// Field manager of all writes.
pub const FIELD_MANAGER: &str = "ensemble";
