//! Webhooks for namespaces: assign namespaces to Tenants, and validate changes of their membership
//! and metadata.

mod assignment;
mod metadata;
mod metadata_policy;
mod name_rules;
mod quota_reservations;
mod restoration;
mod tenant_references;
mod validate;

use capsule::{match_conditions::EXCLUDE_SYSTEM_USERS, membership};
use k8s_openapi::api::core::v1::Namespace;
use operator_core::admission::{
    BoxError, CREATE, Caches, DELETE, Denial, Mutation, Mutator, Operation, Request, UPDATE, Validator,
    Verdict, Webhook, target,
};

use self::{
    assignment::assign,
    quota_reservations::QuotaReservations,
    restoration::MutatedNamespace,
    validate::{Admission, validate},
};
use super::{
    denial_events::DenialEvents,
    lookups::{AdmissionContext, Lookups},
    match_conditions::{CHANGES_TENANT_METADATA, EXCLUDE_MASTERS_WITHOUT_TENANT},
};
use crate::reasons::NAMESPACE_DENIED;

/// Returns the webhook that assigns a new namespace to its Tenant, and that restores the label,
/// owner reference, and metadata of the Tenant when an update removes them.
pub(super) fn mutating_webhook() -> Webhook {
    Webhook::mutating::<NamespaceMutator>("namespace-assignment")
        .on(target::<Namespace>(CREATE | UPDATE))
        .match_condition("exclude-system-users", EXCLUDE_SYSTEM_USERS)
        .match_condition("exclude-masters-without-tenant", EXCLUDE_MASTERS_WITHOUT_TENANT)
        .match_condition("changes-tenant-metadata", CHANGES_TENANT_METADATA)
        .build()
}

/// Returns the webhook that validates writes of namespaces and of their subresources.
pub(super) fn validating_webhook() -> Webhook {
    Webhook::validating::<NamespaceValidator>("namespaces")
        .on(target::<Namespace>(CREATE | UPDATE | DELETE))
        .on(target::<Namespace>(UPDATE).subresource("status"))
        .on(target::<Namespace>(UPDATE).subresource("finalize"))
        .match_condition("exclude-system-users", EXCLUDE_SYSTEM_USERS)
        .match_condition("exclude-masters-without-tenant", EXCLUDE_MASTERS_WITHOUT_TENANT)
        .side_effects()
        .build()
}

struct NamespaceMutator {
    lookups: Lookups,
}

impl Mutator for NamespaceMutator {
    type Object = Namespace;

    fn build(caches: &mut Caches<'_>) -> Self {
        Self { lookups: Lookups::build(caches) }
    }

    async fn mutate(&self, request: &Request<Namespace>) -> Result<Mutation<Namespace>, BoxError> {
        let tenant_names = referenced_tenants(request);
        let context = self.lookups.context(&request.user, &tenant_names).await?;
        let mutated = match assign(request, &context) {
            Err(_) => {
                match self.lookups.refresh(context, &request.user, &tenant_names, is_new(request)).await {
                    Ok(context) => assign(request, &context),
                    Err(error) => Err(error.into_denial()?),
                }
            }
            mutated => mutated,
        };
        Ok(match mutated {
            Ok(Some(MutatedNamespace { namespace, warnings })) => {
                warnings.into_iter().fold(Mutation::change(namespace), Mutation::warn)
            }
            Ok(None) => Mutation::keep(),
            Err(denial) => Mutation::deny(denial),
        })
    }
}

struct NamespaceValidator {
    lookups: Lookups,
    reservations: QuotaReservations,
    denials: DenialEvents,
}

impl Validator for NamespaceValidator {
    type Object = Namespace;

    fn build(caches: &mut Caches<'_>) -> Self {
        let lookups = Lookups::build(caches);
        Self {
            reservations: QuotaReservations::build(caches, &lookups),
            denials: DenialEvents::build(caches),
            lookups,
        }
    }

    async fn validate(&self, request: &Request<Namespace>) -> Result<Verdict, BoxError> {
        let tenant_names = referenced_tenants(request);
        let mut context = self.lookups.context(&request.user, &tenant_names).await?;
        let mut result = validate(request, &context);
        if result.is_err() {
            // The caches may lag behind. A request is denied only after a live read.
            let refreshed =
                self.lookups.refresh(context.clone(), &request.user, &tenant_names, is_new(request)).await;
            result = match refreshed {
                Ok(refreshed) => {
                    context = refreshed;
                    validate(request, &context)
                }
                Err(error) => Err(error.into_denial()?),
            };
        }
        let result = match result {
            Ok(Admission::Allowed) => Ok(()),
            Ok(Admission::NeedsReservation { tenant, namespace }) => {
                self.reservations.reserve(tenant, &namespace, request.dry_run).await?
            }
            Err(denial) => Err(denial),
        };
        if let (Err(denial), false) = (&result, request.dry_run) {
            self.record_denial(&context, denial);
        }
        Ok(result.into())
    }
}

impl NamespaceValidator {
    /// Records the denial as an Event on each Tenant that the request references, or else on the
    /// only Tenant that the user owns.
    fn record_denial(&self, context: &AdmissionContext, denial: &Denial) {
        let named: Vec<_> = context.referenced.values().collect();
        let only = context.owned.values().take(usize::from(named.is_empty() && context.owned.len() == 1));
        let note = format!("denied request of {}: {}", context.user, denial.message);
        for tenant in named.into_iter().chain(only) {
            self.denials.record_on_tenant(tenant, NAMESPACE_DENIED, "Admission", &note);
        }
    }
}

fn is_new(request: &Request<Namespace>) -> bool {
    request.operation == Operation::Create
}

/// Returns the Tenants that the old and the new namespace reference.
fn referenced_tenants(request: &Request<Namespace>) -> Vec<String> {
    let mut names: Vec<_> =
        request.states().flat_map(|namespace| membership::referenced_tenants(&namespace.metadata)).collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests;
