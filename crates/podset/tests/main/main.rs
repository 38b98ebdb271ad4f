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
mod faults;
mod line;
mod lost;
mod ownership;
mod readiness;
mod rivals;
mod scaling;
mod status;
mod support;
