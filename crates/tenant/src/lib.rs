//! Tenant is multi-tenancy with the API of capsule.clastix.io.

mod amounts;
pub mod api;
pub mod children;
pub mod cidr;
pub mod hash;
pub mod namespace;
pub mod owners;
pub mod quota;
pub mod unenforced;
