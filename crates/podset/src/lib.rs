//! PodSet keeps a number of pods running, as a ReplicaSet does.
//!
//! Where each behaviour is, in the order of a reconcile:
//!
//! ```text
//! api        what a person asks for and is told
//! schema     makes it a definition: pod templates that fit, quantities that are checked
//! reconcile  the controller: act (claim, plan, make and delete), then tell
//! observe    pods in the caches: whose they are, which of them count
//! claim      orphans with the labels are adopted, relabelled pods are released
//! chosen     surplus pods that were chosen to go, remembered until the caches show them go
//! plan       pure: how many pods are missing and what they are called, which surplus pods go first
//! build      pure: the pod that is made: its template with labels and owner
//! error      what can stand in the way, and what a person can do about it
//! progress   pure: missing, not ready, not yet for spec.minReadySeconds, or complete; and when to look again
//! status     pure: numbers and conditions, in sentences
//! words      the types and reasons of conditions and Events
//! ```
//!
//! What it shares with other controllers is operator-core's: the queue and its pauses after errors, Events, the write
//! of a status that differs, and that an object that is being deleted is not reconciled.

mod adoption;
pub mod api;
mod build;
mod error;
mod observe;
mod pending_deletions;
mod plan;
mod progress;
pub mod reasons;
mod reconcile;
mod schema;
mod status;
#[cfg(test)]
mod testing;

pub use api::{PodSet, PodSetSpec, PodSetStatus};
pub use build::{APP_LABEL, VERSION, VERSION_LABEL};
pub use error::Error;
pub use reconcile::{IMAGE, PodSetController};
