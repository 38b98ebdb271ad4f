//! PodSet keeps a number of Pods running, as a ReplicaSet does.
//!
//! The modules, in the order in which a reconcile uses them:
//!
//! ```text
//! api                the API types: spec, status, printer columns
//! schema             the CustomResourceDefinition, with a validated Pod template
//! reconcile          the controller: adopt, plan, create and delete Pods, then update the status
//! pod_cache          Pods in the informer cache, indexed by owner and by orphan labels
//! adoption           adopts orphans with matching labels, releases relabelled Pods
//! pending_deletions  tracks Pods selected for deletion until the cache confirms they are gone
//! plan               pure: the names of missing Pods, and the surplus Pods in deletion order
//! pod_template       pure: the Pod that is created from the template
//! error              errors, and the failure and remedy that the status reports
//! progress           pure: scaling, not ready, within minReadySeconds, or complete
//! status             pure: replica counts and conditions
//! condition_types    types of the conditions
//! reasons            reasons of conditions and Events
//! ```
//!
//! The queue, backoff, Events, and status writes come from `operator-core`, which also skips
//! objects that are being deleted.

mod adoption;
pub mod api;
mod compact_template;
pub mod condition_types;
mod error;
mod pending_deletions;
mod plan;
mod pod_cache;
mod pod_template;
mod progress;
pub mod reasons;
mod reconcile;
mod schema;
mod status;
#[cfg(test)]
mod testing;

pub use api::{PodSet, PodSetSpec, PodSetStatus};
pub use compact_template::CompactTemplate;
pub use error::Error;
pub use pod_template::{APP_LABEL, VERSION, VERSION_LABEL};
pub use reconcile::{IMAGE, PodSetController};
