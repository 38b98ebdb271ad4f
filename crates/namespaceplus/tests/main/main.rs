//! Tests of the NamespacePlus controller on a real API server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod bad_input;
mod contents;
mod deletion;
mod drift;
mod events;
mod hooks;
mod no_op;
mod ownership;
mod support;
mod tls;
mod tutorial;
