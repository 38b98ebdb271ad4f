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
//! | `conversion` | conversion between the versions of a Tenant |
//! | `reconcile` | the Tenant controller |
//! | `namespaces` | reads and writes of namespaces |
//! | `promotion` | owners by the configuration |
//! | `plan` | desired state: `owner_bindings`, `namespace_metadata`, `children`, `quota`, `shared_quotas` |
//! | `apply`, `managed_objects` | creates, updates, and prunes the planned objects |
//! | `additional_metadata` | metadata of existing Pods and Services |
//! | `volumes` | label of PersistentVolumes |
//! | `status`, `failure`, `condition_types`, `reasons`, `unsupported_fields` | status and conditions |
//! | `metrics` | metrics of each Tenant |
//! | `configuration` | the `CapsuleConfiguration` controller |
//! | `policies` | what a Tenant allows in its namespaces |
//! | `webhook` | admission webhooks, with `spec_patterns` and `reservations` |
//!
//! The kinds and the rules that others share are in the crate `capsule`.

mod additional_metadata;
mod apply;
mod available_classes;
pub mod children;
pub mod condition_types;
pub mod configuration;
pub mod conversion;
mod failure;
mod managed_objects;
mod metrics;
pub mod namespace_metadata;
mod namespaces;
pub mod owner_bindings;
mod plan;
mod policies;
mod promotion;
mod quantities;
pub mod quota;
pub mod reasons;
mod reconcile;
mod reservations;
pub mod role_binding_name;
mod shared_quotas;
mod spec_patterns;
mod status;
pub mod unsupported_fields;
mod volumes;
mod webhook;

pub use configuration::ConfigurationController;
pub use failure::{Failure, Failures};
pub use reconcile::{Error, GRANTABLE, TenantController};
pub use shared_quotas::ObjectQuotaError;
