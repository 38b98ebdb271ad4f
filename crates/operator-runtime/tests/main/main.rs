//! Tests of operator-runtime on a real API server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod certificates;
mod election;
mod watches;
mod webhook;
