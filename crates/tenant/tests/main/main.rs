//! Tenants on a real API server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod bad_input;
mod configuration;
mod deletion;
mod drift;
mod membership;
mod metadata;
mod oil;
mod owners;
mod propagated_values;
mod quiet;
mod quotas;
mod race;
mod rights;
mod services;
mod strangers;
mod support;
mod told;
