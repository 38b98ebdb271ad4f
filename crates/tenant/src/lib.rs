//! Tenant is multi-tenancy with the API of capsule.clastix.io.

pub mod api;
