//! Tenants on a real API server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod bad_input;
mod deletion;
mod drift;
mod membership;
mod metadata;
mod oil;
mod quiet;
mod quotas;
mod rights;
mod strangers;
mod support;
mod told;
