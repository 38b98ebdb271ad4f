//! Admission and conversion: what a controller says about objects before they are stored.
//!
//! A controller declares its webhooks beside their handlers. From one declaration come the route that the
//! process serves, the webhook configuration that is applied, and the checks on both. There is no HTTP in here.
//!
//! ```text
//! AdmissionReview -> Endpoint (is it for this route? are the caches filled?) -> Validator or Mutator -> answer
//! ```
//!
//! Prefer, in this order: the schema of the definition, CEL rules in it, a ValidatingAdmissionPolicy, a webhook.
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
pub mod configuration;
mod conversion;
mod endpoint;
mod faults;
mod footprint;
mod handler;
mod merge;
mod policy;
mod request;
mod review;
mod target;
mod verdict;
mod webhook;

pub use caches::Caches;
pub use conversion::{Conversion, ConversionBounds, ConversionError, ConversionResponse, Hub, Version};
pub use endpoint::{Endpoint, ReviewError, ReviewFailure, ReviewInfo, ReviewResponse};
pub use faults::faults;
pub use footprint::{Footprint, TooDeep};
pub use handler::{BoxError, Mutator, Validator};
pub use policy::Policy;
pub use request::{Metadata, Operation, Request};
pub use target::{
    CONNECT, CREATE, Covers, DELETE, Operations, Target, TargetRule, UPDATE, any_namespaced, target,
};
pub use verdict::{Denial, Mutation, Reason, Verdict};
pub use webhook::{FailurePolicy, MatchCondition, SideEffects, Webhook, WebhookBuilder, WebhookType};
