//! What the manager survives, and how it is tried.
//!
//! The manager sees the API server through a [`proxy`] that can strike any request and any frame of any watch.
//! [`workload`]s change objects; [`learn`] looks at each without a fault, [`plan`] lists every point at which it can
//! be struck, [`run`] strikes at one of them, and the [`oracle`] judges what [`observe`] has seen directly at the API
//! server: that it comes to the same as without the fault, that nothing was made or deleted more often, and that
//! nothing was ever as it must never be. [`matrix`] does all of it, [`report`] tells of it.

pub mod asked;
mod batch;
pub mod blow;
pub mod class;
pub mod clock;
pub mod id;
pub mod kinds;
pub mod lane;
pub mod learn;
pub mod matrix;
pub mod observe;
pub mod oracle;
pub mod plan;
pub mod proxy;
pub mod reminder;
pub mod report;
pub mod run;
pub mod stage;
pub mod token;
mod trial;
pub mod workload;
