//! TenantResources and GlobalTenantResources on a real API server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod access;
mod accounts;
mod adoption;
mod bad_input;
mod context;
mod deletion;
mod dependencies;
mod global;
mod items;
mod no_op;
mod restart;
mod support;
