//! What a Kubernetes controller needs, over kube: informers that share one watch per kind, a work queue with
//! backoff for each object, and writes that send nothing when nothing changed.
//!
//! A controller implements [`controller::Controller`] and is put into the manager's table by
//! [`controller::register`]. The way of an event through this crate:
//!
//! ```text
//! watch -> informer (store, indexes) -> builder (whom does it concern?) -> queue -> runner -> reconcile
//!                ^                                                                              |
//!                +------------- what was written is seen at once -------- write, status <-------+
//! ```
//!
//! There is no server and no process in here; those are `operator-runtime`'s.

pub mod admission;
pub mod backoff;
pub mod builder;
pub mod client;
pub mod conditions;
pub mod controller;
pub mod environment;
pub mod error;
pub mod events;
pub mod fence;
pub mod finalizer;
pub mod informer;
pub mod kind;
pub mod labels;
pub mod metrics;
pub mod outcome;
mod own_user;
pub mod owner;
pub mod pod;
pub mod quantity;
pub mod queue;
pub mod rate_limit;
pub mod rbac;
mod runner;
pub mod status;
pub mod template;
pub mod write;
pub mod writer;

pub use builder::ControllerBuilder;
pub use controller::{
    ClusterLeftovers, Controller, DrainResult, OwnedFinalizer, Registration, Runnable, register,
};
pub use environment::{Environment, Setting};
pub use kind::ObjectKey;
pub use outcome::{Outcome, ReconcileError};
pub use own_user::OwnUser;
