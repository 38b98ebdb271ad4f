//! The manager as a program, on a real control plane: what a person sees who runs it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod admission;
mod autoscaling;
mod certificates;
mod client_certificates;
mod crashes;
mod deploy;
mod disruptions;
mod docs;
mod election;
mod ending;
mod ensemblectl;
mod hooks;
mod hostile_reviews;
mod hundred_kills;
mod isolation;
mod logs;
mod metrics;
mod outage;
mod podset_conformance;
mod refusals;
mod removal;
mod rest;
mod rights;
mod selection;
mod setup;
mod shared_quota;
mod support;
mod tenancy;
mod tenancy_classes;
mod tenancy_from_capsule;
mod tenancy_versions;
mod tutorial;
mod upgrade;
