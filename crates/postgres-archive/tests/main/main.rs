//! The archive on a real S3 server, versitygw, and on a small one that can misbehave.
//!
//! Go builds versitygw once, which takes minutes. `ENSEMBLE_ARCHIVE_MEGABYTES` sets how much the test
//! of the throughput writes:
//! `cargo test --release -p postgres-archive --test main throughput -- --nocapture`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod backups;
mod claim;
mod conditional;
mod fake;
mod faults;
mod hostile;
mod listing;
mod proxy;
mod prune;
mod send;
mod server;
mod support;
mod throughput;
mod tls;
mod wal;
mod write_once;
