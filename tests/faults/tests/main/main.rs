//! The instrument, on a real control plane: that its faults are what they say, that it finds what is wrong, and that the
//! controllers pass a part of it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod controllers;
mod finds;
mod frames;
mod reminder;
mod requests;
mod restore;
mod support;
