//! Replication of objects into the namespaces of Tenants (`TenantResource` and
//! `GlobalTenantResource` of `capsule.clastix.io`).
//!
//! The two kinds differ only in the Tenants that they reach: a TenantResource reaches the Tenant of
//! its own namespace, and a GlobalTenantResource all selected Tenants. One reconcile serves both.
//!
//! Modules in the order of a reconcile:
//!
//! | module | concept |
//! |---|---|
//! | `controllers` | the two controllers and their permissions |
//! | `reconcile` | the steps of a reconcile |
//! | `resource` | what the two kinds have in common |
//! | `caches`, `triggers` | Tenants, namespaces, and settings; what triggers a reconcile |
//! | `dependencies` | pure: `spec.dependsOn` |
//! | `identity`, `endpoint`, `impersonation` | who acts, and the clients that act as ServiceAccounts |
//! | `target` | pure: the Tenants and namespaces that objects are created for |
//! | `gather`, `reference`, `fast_template`, `generator` | copies, raw items, and generators become items |
//! | `item`, `plan` | pure: items, field managers, and what is applied and pruned |
//! | `discovery`, `access` | scopes of kinds; the single way to the objects that are written |
//! | `writer`, `live`, `memo`, `item_error` | server-side apply, pruning, and what a resync need not send |
//! | `status`, `condition_types`, `reasons`, `error`, `resync` | the result |
//! | `metrics`, `webhook` | gauges; admission |
//!
//! # Guarantees
//! - A TenantResource writes only in namespaces of its Tenant, and no cluster-scoped object. The
//!   API of each object that is written comes from one place, which checks this by discovery.
//! - All reads and writes of objects are those of a ServiceAccount, so nobody gains permissions.
//! - Only objects that a replication has created are deleted. A delete names the UID and the
//!   resource version.
//! - The status lists an item before it is written, so an interrupted reconcile forgets nothing.

mod access;
mod caches;
pub mod condition_types;
mod controllers;
mod dependencies;
mod discovery;
mod endpoint;
mod error;
mod fast_template;
mod gather;
mod generator;
mod identity;
mod impersonation;
mod item;
mod item_error;
mod live;
mod memo;
mod metrics;
mod plan;
pub mod reasons;
mod reconcile;
mod reference;
mod resource;
mod resync;
mod status;
mod target;
mod triggers;
mod webhook;
mod writer;

pub use capsule::api::names::FINALIZER;
pub use controllers::{GlobalTenantResourceController, TenantResourceController};
pub use error::Error;
