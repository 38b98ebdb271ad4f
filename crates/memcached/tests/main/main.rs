//! Memcached on a real API server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod autoscaling;
mod bad_input;
mod deletion;
mod drift;
mod metrics;
mod network;
mod page;
mod quiet;
mod rolling;
mod scaling;
mod support;
mod trouble;
