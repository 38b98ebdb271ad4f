//! The launcher on the real thing.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed assumption of a test is its failure"
)]

mod lifecycle;
