//! The API of Capsule (`capsule.clastix.io`), and rules that all its programs share: who owns what, which
//! namespaces belong to a Tenant, and what its patterns match.
//!
//! The crate is pure: it has no client, no clock, and no input or output.
//!
//! | module | contents |
//! |---|---|
//! | [`api`] | kinds in each version, labels, annotations |
//! | [`owners`], [`owner_indexes`] | the owners of a Tenant; indexes of caches by owner |
//! | [`subjects`] | what a user is to the Tenants of a cluster |
//! | [`membership`] | which namespaces belong to a Tenant |
//! | [`lookups`] | the configuration, and the Tenant of a namespace, from caches |
//! | [`match_conditions`] | which requests need no review |
//! | [`name_filter`], [`class_filter`] | which names and classes a Tenant allows |
//! | [`compiled`] | cache of what is compiled from a Tenant |
//! | [`condition_series`] | conditions as metrics |
//! | [`cluster_resources`] | which kinds a rule of the proxy is for |
//! | [`pattern`] | regular expressions in specs |
//! | [`cidr`] | ranges of addresses |
//! | [`syntax`] | names, labels, and annotations, as the API server validates them |

pub mod api;
pub mod cidr;
pub mod class_filter;
pub mod cluster_resources;
pub mod compiled;
pub mod condition_series;
pub mod lookups;
pub mod match_conditions;
pub mod membership;
pub mod name_filter;
pub mod owner_indexes;
pub mod owners;
pub mod pattern;
pub mod subjects;
pub mod syntax;

pub use api::v1beta2::{Tenant, TenantSpec, TenantStatus};
