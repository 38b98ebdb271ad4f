//! Metrics: what is measured, and the server that shows it to those who may see it.
//!
//! - [`reference`] is the list of all metrics; the registry, the reference page and the tests are made from it.
//! - [`Meter`] counts: it is what the controllers and the other parts of the process call.
//! - [`serve`] answers `GET /metrics` in OpenMetrics text, and whatever else stands behind the same door.
//!
//! # The door
//! A request needs a bearer token. The API server is asked whose it is (TokenReview) and whether that user may do
//! this (SubjectAccessReview of the path and the method). Its answers are kept for a short while.

mod access;
mod live;
mod measure;
mod meter;
mod metric;
#[cfg(target_os = "linux")]
mod process;
pub mod reference;
mod server;
mod words;

use k8s_openapi::api::{authentication::v1::TokenReview, authorization::v1::SubjectAccessReview};
pub use meter::Meter;
use operator_core::rbac::{CREATE, Rule, rule};
pub use server::{Door, may_listen, serve};

/// What the manager may, to ask about those who come for its metrics.
pub fn rules() -> Vec<Rule> {
    vec![rule::<TokenReview>(CREATE), rule::<SubjectAccessReview>(CREATE)]
}
