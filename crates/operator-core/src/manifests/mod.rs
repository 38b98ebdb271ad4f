//! Manifests derived from the registration of a controller: roles, webhook configurations, admission
//! policies, and CRDs with conversions.

mod grant;
#[cfg(test)]
mod testing;
mod validation;
pub mod webhooks;

pub use grant::Grant;
pub use validation::validate_webhooks;
