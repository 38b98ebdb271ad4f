//! End-to-end tests of the manager on a real control plane.
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
mod controller_selection;
mod crashes;
mod deploy;
mod docs;
mod election;
mod ensemblectl;
mod hooks;
mod hostile_reviews;
mod idle;
mod isolation;
mod logs;
mod metrics;
mod missing_prerequisites;
mod outage;
mod pod_disruption_budgets;
mod podset_conformance;
mod random_kills;
mod rbac;
mod removal;
mod shared_quota;
mod shutdown;
mod startup_errors;
mod support;
mod tenancy;
mod tenancy_benchmarks;
mod tenancy_classes;
mod tenancy_migration;
mod tenancy_versions;
mod tenant_resources;
mod tutorial;
mod upgrade;
