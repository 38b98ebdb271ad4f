//! Multi-tenancy with the API of Capsule (`capsule.clastix.io`).
//!
//! A Tenant is a group of namespaces with common owners, limits, and policies. The crate has two
//! controllers and the admission webhooks for both:
//!
//! - [`TenantController`] applies metadata, RoleBindings, NetworkPolicies, LimitRanges, and
//!   ResourceQuotas to the namespaces of each Tenant.
//! - [`ConfigurationController`] manages the ClusterRoles of owners, and reports the Tenants of
//!   each `TenantOwner`.
//!
//! Modules in the order of a reconcile:
//!
//! | module | concept |
//! |---|---|
//! | `api`, `conversion` | kinds in each version, and the conversion between versions |
//! | `reconcile` | the Tenant controller |
//! | `membership`, `namespaces` | which namespaces belong to a Tenant; reads and writes of namespaces |
//! | `plan` | desired state: `owners`, `namespace_metadata`, `children`, `quota` |
//! | `apply`, `managed_objects` | creates, updates, and prunes the planned objects |
//! | `service_metadata` | metadata of existing Services |
//! | `status`, `failure`, `condition_types`, `reasons`, `unsupported_fields` | status and conditions |
//! | `metrics` | metrics of each Tenant |
//! | `configuration` | the `CapsuleConfiguration` controller |
//! | `webhook` | admission webhooks, with `spec_patterns`, `subjects`, `reservations`, and `class_filter` |

pub mod api;
mod apply;
mod available_classes;
pub mod children;
pub mod cidr;
pub mod class_filter;
pub mod condition_types;
pub mod configuration;
pub mod conversion;
mod failure;
mod managed_objects;
pub mod membership;
mod metrics;
pub mod namespace_metadata;
mod namespaces;
pub mod owners;
pub mod pattern;
mod plan;
mod quantities;
pub mod quota;
pub mod reasons;
mod reconcile;
mod reservations;
pub mod role_binding_name;
mod service_metadata;
mod spec_patterns;
mod status;
pub mod subjects;
mod syntax;
pub mod unsupported_fields;
mod webhook;

pub use api::v1beta2::{Tenant, TenantSpec, TenantStatus};
pub use configuration::ConfigurationController;
pub use failure::{Failure, Failures};
pub use reconcile::{Error, GRANTABLE, TenantController};
