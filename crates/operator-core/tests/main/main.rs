//! Tests of operator-core with a real API server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod finalizers;
mod gate;
mod informers;
mod namespaces;
mod pods;
mod runner;
mod support;
mod widget;
mod writes;
