//! Admission webhooks, admission policies, and conversions.
//!
//! A controller declares webhooks together with their handlers. The declaration determines the path
//! that the process serves, the webhook configuration, and the validation of both. This module
//! contains no HTTP.
//!
//! ```text
//! AdmissionReview -> Endpoint (checks the target, waits for caches) -> Validator or Mutator -> response
//! ```
//!
//! Prefer the first of these that suffices: the schema of the CRD, CEL rules in it, a
//! ValidatingAdmissionPolicy, a webhook.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use operator_core::admission::{BoxError, CREATE, Caches, Denial, Request, UPDATE, Validator, Verdict, Webhook, target};
//!
//! struct NotEmpty;
//!
//! impl Validator for NotEmpty {
//!     type Object = ConfigMap;
//!
//!     fn build(_: &mut Caches<'_>) -> Self {
//!         Self
//!     }
//!
//!     async fn validate(&self, request: &Request<ConfigMap>) -> Result<Verdict, BoxError> {
//!         Ok(match request.new.as_ref().and_then(|new| new.data.as_ref()) {
//!             Some(_) => Verdict::allow(),
//!             None => Verdict::deny(Denial::invalid("data: is empty; give at least one key")),
//!         })
//!     }
//! }
//!
//! let webhook: Webhook = Webhook::validating::<NotEmpty>("not-empty").on(target::<ConfigMap>(CREATE | UPDATE)).build();
//! assert_eq!(webhook.path("greeting"), "/greeting/not-empty");
//! ```

mod caches;
mod conversion;
mod endpoint;
mod error;
mod handler;
mod memory_estimate;
mod merge;
mod policy;
mod request;
mod review;
mod side_effects;
mod target;
mod verdict;
mod webhook;

pub use caches::Caches;
pub use conversion::{
    Conversion, ConversionBuilder, ConversionError, ConversionLimits, ConversionResponse, Version,
};
pub use endpoint::{Endpoint, ReviewResponse};
pub use error::{BoxError, ReviewError, ReviewFailure};
pub use handler::{Mutator, Validator};
pub use memory_estimate::{MemoryEstimate, TooDeep};
pub use policy::Policy;
pub use request::{Metadata, Operation, Request};
pub use review::ReviewInfo;
pub use side_effects::SideEffects;
pub use target::{
    CONNECT, CREATE, Covers, DELETE, Operations, Target, TargetRule, UPDATE, any_cluster_scoped,
    any_namespaced, target,
};
pub use verdict::{Denial, Mutation, Reason, Verdict};
pub(crate) use webhook::MAX_TIMEOUT_SECONDS;
pub use webhook::{FailurePolicy, MatchCondition, Webhook, WebhookBuilder, WebhookType};
