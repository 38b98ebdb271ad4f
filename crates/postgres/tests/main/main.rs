//! The API of a PostgresCluster on a real API server. `tests/postgres` runs clusters with databases.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod bad_input;
mod protection;
mod support;
