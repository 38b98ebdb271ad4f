//! Tests of the Memcached controller on a real API server.
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
mod failures;
mod metrics;
mod network;
mod no_op;
mod rolling;
mod scaling;
mod support;
