//! Tenants on a real API server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod adoption;
mod bad_input;
mod configuration;
mod deletion;
mod drift;
mod membership;
mod metadata;
mod no_op;
mod owners;
mod permissions;
mod propagated_values;
mod quota_race;
mod quotas;
mod sample;
mod service_metadata;
mod status;
mod support;
