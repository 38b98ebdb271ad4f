//! Fault injection for the manager.
//!
//! The manager connects to the API server through a [`proxy`] that can inject a fault into any
//! request and any watch frame. A [`workload`] changes objects. [`baseline`] records each workload
//! without a fault, [`plan`] lists all points of injection, and [`run`] injects one fault. The
//! [`oracle`] checks what [`observer`] recorded directly at the API server: the end state equals
//! the baseline, no object was created or deleted more often, and no invariant was violated at any
//! time. [`members`] simulates the Pods of PostgresClusters. [`matrix`] executes all runs, and [`report`] formats the results.

pub mod baseline;
mod batch;
pub mod class;
pub mod clock;
pub mod id;
pub mod injection;
pub mod kinds;
pub mod matrix;
pub mod members;
pub mod observer;
pub mod oracle;
pub mod plan;
pub mod proxy;
pub mod report;
pub mod run;
pub mod selection;
pub mod stuck_pods;
pub mod test_cluster;
pub mod token;
mod track;
mod trial;
pub mod worker;
pub mod workload;
