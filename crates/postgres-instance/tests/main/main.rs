//! Tests of the status API over real sockets and TLS, which use only the public API.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod bind;
mod hostile;
mod identity;
mod probes;
mod replacement;
mod seal;
mod status;
mod support;
