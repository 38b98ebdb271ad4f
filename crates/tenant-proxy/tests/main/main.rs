//! The proxy beside a real API server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod acceptance;
mod attacks;
mod selectors;
mod support;
mod upstream;
