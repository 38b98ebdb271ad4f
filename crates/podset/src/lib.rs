//! PodSet keeps a number of pods running, as a ReplicaSet does.
//!
//! The way of a reconcile, in the order of the modules:
//!
//! ```text
//! api        what a person asks for and is told; schema makes it a definition
//! observe    the pods that count, from the caches
//! claim      orphans are adopted, strangers' labels released
//! plan       pure: which pods to make, which to delete
//! build      pure: the pod that is made
//! status     pure: what is said about it
//! reconcile  the controller: observe, claim, plan, act, tell
//! ```

pub mod api;
mod build;
mod claim;
mod observe;
mod plan;
mod reconcile;
mod schema;
mod status;

pub use api::{PodSet, PodSetSpec, PodSetStatus};
pub use build::{APP_LABEL, VERSION, VERSION_LABEL};
pub use reconcile::{Error, IMAGE, PodSetController};
pub use status::{PROGRESSING, REPLICA_FAILURE};
