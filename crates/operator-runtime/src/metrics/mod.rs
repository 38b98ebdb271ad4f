//! Metrics and the server that exposes them.
//!
//! - [`mod@reference`] lists all metrics. The registry, the reference page, and the tests are generated
//!   from it.
//! - [`Meter`] records values. Controllers and the runtime call it.
//! - [`serve`] serves `GET /metrics` as OpenMetrics text, and further paths that need the same
//!   authorization.
//!
//! # Authorization
//! A request needs a bearer token. The server authenticates it by a TokenReview and authorizes it
//! by a SubjectAccessReview of the path and the method. Results are cached for a short time.

mod authorization;
mod label_limit;
mod live;
mod measure;
mod meter;
mod metric;
#[cfg(target_os = "linux")]
mod process;
pub mod reference;
mod server;

use k8s_openapi::api::{authentication::v1::TokenReview, authorization::v1::SubjectAccessReview};
pub use measure::{LabelValue, Measure};
pub use meter::Meter;
use operator_core::rbac::{CREATE, Rule, rule};
use prometheus_client::{encoding::text, metrics::info::Info, registry::Registry};
pub use server::{Access, OPEN_METRICS, check_address, serve};

/// Returns a registry with the version of a program, and with what the process uses.
pub fn registry(version: &'static str) -> Registry {
    let mut registry = Registry::default();
    measure::register(&mut registry, &reference::BUILD, Info::new([("version", version)]));
    #[cfg(target_os = "linux")]
    registry.register_collector(Box::new(process::Process::new()));
    registry
}

/// Encodes all metrics of a registry as OpenMetrics text.
///
/// # Errors
/// Returns an error if encoding fails, which does not happen in memory.
pub fn encode(registry: &Registry) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    text::encode(&mut text, registry)?;
    Ok(text)
}

/// Returns the RBAC rules for authenticating and authorizing scrapes.
pub fn rules() -> Vec<Rule> {
    vec![rule::<TokenReview>(CREATE), rule::<SubjectAccessReview>(CREATE)]
}
