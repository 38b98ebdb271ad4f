//! Tests of the fault injection on a real control plane: the faults behave as documented,
//! violations are detected, and the controllers pass a part of the matrix.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod controllers;
mod detection;
mod frames;
mod requests;
mod restore;
mod stuck_pods;
mod support;
