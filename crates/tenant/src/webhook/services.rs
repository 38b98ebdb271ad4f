//! Types, external addresses, and keys of Services.

use operator_core::admission::{
    BoxError, CREATE, Caches, Request, UPDATE, Validator, Verdict, Webhook, target,
};

use super::{denial_events::DenialEvents, has_label, policy_reader::PolicyReader};
use crate::policies::{
    labels::SERVICE_POLICIES_LABEL,
    services::{ReviewedService, ServicePolicy},
};

/// Returns the webhook.
pub(super) fn webhook() -> Webhook {
    Webhook::validating::<ServiceValidator>("services")
        .on(target::<ReviewedService>(CREATE | UPDATE))
        .in_namespaces(has_label(SERVICE_POLICIES_LABEL))
        .side_effects()
        .build()
}

struct ServiceValidator {
    policies: PolicyReader<ServicePolicy>,
    denials: DenialEvents,
}

impl Validator for ServiceValidator {
    type Object = ReviewedService;

    fn build(caches: &mut Caches<'_>) -> Self {
        Self { policies: PolicyReader::build(caches), denials: DenialEvents::build(caches) }
    }

    async fn validate(&self, request: &Request<ReviewedService>) -> Result<Verdict, BoxError> {
        let Some(service) = &request.new else { return Ok(Verdict::allow()) };
        match self.policies.of(request.namespace.as_deref()).await {
            Ok(Some((tenant, policy))) => {
                let checked = policy.check(request.old.as_ref(), service);
                Ok(self.denials.verdict(request, &tenant, checked))
            }
            Ok(None) => Ok(Verdict::allow()),
            Err(error) => error.into_denial().map(Verdict::deny),
        }
    }
}
