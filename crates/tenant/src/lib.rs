//! Tenant is multi-tenancy with the API of capsule.clastix.io.
//!
//! The way of a reconcile, in the order of the modules:
//!
//! ```text
//! api         what a person asks for and is told, in each version; conversion says it in another
//! membership  pure: which namespaces belong to a Tenant; namespaces finds, patches and deletes them
//! plan        pure: what is to be in each of them, of owners, namespace, children, quota
//! objects     makes, repairs and takes away what is planned; keep does so for one kind; services are those of people
//! people      pure: who somebody is to the Tenants; places are those within the quota of namespaces
//! status      pure: what is said about it, and of failure
//! reconcile   the controller: members, plan, announce, hold, act, tell
//! webhook     what the API server asks about Tenants before it stores them
//! ```
//!
//! `metrics` is what is shown of each Tenant. `configuration` is another controller: it keeps the cluster roles of owners, and tells each `TenantOwner` which
//! Tenants it has.

pub mod allowed;
pub mod api;
mod apply;
pub mod children;
pub mod cidr;
mod classes;
pub mod configuration;
pub mod conversion;
mod failure;
pub mod hash;
mod managed_objects;
pub mod membership;
mod metrics;
pub mod namespace;
mod namespaces;
pub mod owners;
pub mod pattern;
mod plan;
mod quantities;
pub mod quota;
pub mod reasons;
mod reconcile;
mod reservations;
mod services;
mod status;
pub mod subjects;
mod syntax;
pub mod unsupported_fields;
mod webhook;

pub use api::v1beta2::{Tenant, TenantSpec, TenantStatus};
pub use configuration::ConfigurationController;
pub use failure::{Failure, Failures};
pub use reconcile::{Error, GRANTABLE, TenantController};
