//! PodSet on a real API server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod bad_input;
mod deletion;
mod failures;
mod faulty_connection;
mod lost_responses;
mod overlapping_selectors;
mod ownership;
mod readiness;
mod scaling;
mod status;
mod support;
