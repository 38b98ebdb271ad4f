//! Tests of the PostgresCluster controller on a real API server, with simulated Pods: no database
//! runs in them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod bad_input;
mod failures;
mod no_op;
mod support;
mod walk_through;
