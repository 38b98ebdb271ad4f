//! Webhooks of kinds of which only the class matters: Gateways, ResourceClaims, and
//! ResourceClaimTemplates.
//!
//! A cluster need not serve these kinds. The API server then sends no reviews.

use capsule::class_filter::ClassFilters;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use kube::ResourceExt;
use operator_core::admission::{
    BoxError, CREATE, Caches, Mutation, Mutator, Operation, Request, UPDATE, Validator, Verdict, Webhook,
    target,
};
use serde::Serialize;

use super::{
    classes::{ClassCache, HasClass, SetClass},
    denial_events::DenialEvents,
    in_tenants,
    policy_reader::PolicyReader,
};
use crate::policies::gateways::Gateway;

/// Skips updates that keep the class of a Gateway.
const CLASS_CHANGES: &str = "request.operation == 'CREATE' || \
    object.?spec.?gatewayClassName.orValue('') != oldObject.?spec.?gatewayClassName.orValue('')";

/// Returns the webhooks. They exclude no users, because controllers create these objects on behalf
/// of the users of a Tenant.
pub(super) fn webhooks() -> [Webhook; 4] {
    [
        Webhook::mutating::<ClassMutator<Gateway>>("gateway-classes")
            .on(target::<Gateway>(CREATE | UPDATE))
            .in_namespaces(in_tenants())
            .match_condition("class-changes", CLASS_CHANGES)
            .build(),
        Webhook::validating::<ClassValidator<Gateway>>("gateways")
            .on(target::<Gateway>(CREATE | UPDATE))
            .in_namespaces(in_tenants())
            .match_condition("class-changes", CLASS_CHANGES)
            .side_effects()
            .build(),
        device_claims::<ResourceClaim>("resourceclaims"),
        device_claims::<ResourceClaimTemplate>("resourceclaimtemplates"),
    ]
}

/// Returns the webhook of a kind whose classes never change.
fn device_claims<K: HasClass + Serialize>(name: &'static str) -> Webhook {
    Webhook::validating::<ClassValidator<K>>(name)
        .on(target::<K>(CREATE))
        .in_namespaces(in_tenants())
        .side_effects()
        .build()
}

/// Sets the default class of the Tenant.
pub(super) struct ClassMutator<K: HasClass> {
    filters: PolicyReader<ClassFilters>,
    classes: ClassCache<K::Class>,
}

impl<K: SetClass + Serialize> Mutator for ClassMutator<K> {
    type Object = K;

    fn build(caches: &mut Caches<'_>) -> Self {
        Self { filters: PolicyReader::build(caches), classes: ClassCache::build(caches, K::SELECTION) }
    }

    async fn mutate(&self, request: &Request<K>) -> Result<Mutation<K>, BoxError> {
        let Some(object) = &request.new else { return Ok(Mutation::keep()) };
        let Some((_, filters)) = self.filters.of(request.namespace.as_deref()).await? else {
            return Ok(Mutation::keep());
        };
        let is_create = request.operation == Operation::Create;
        let changed = self.classes.with_default(&filters, object, is_create);
        Ok(changed.map_or_else(Mutation::keep, Mutation::change))
    }
}

/// Denies classes that the Tenant does not allow.
struct ClassValidator<K: HasClass> {
    filters: PolicyReader<ClassFilters>,
    classes: ClassCache<K::Class>,
    denials: DenialEvents,
}

impl<K: HasClass> Validator for ClassValidator<K> {
    type Object = K;

    fn build(caches: &mut Caches<'_>) -> Self {
        Self {
            filters: PolicyReader::build(caches),
            classes: ClassCache::build(caches, K::SELECTION),
            denials: DenialEvents::build(caches),
        }
    }

    async fn validate(&self, request: &Request<K>) -> Result<Verdict, BoxError> {
        let Some(object) = &request.new else { return Ok(Verdict::allow()) };
        let (tenant, filters) = match self.filters.of(request.namespace.as_deref()).await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(Verdict::allow()),
            Err(error) => return error.into_denial().map(Verdict::deny),
        };
        let checked = self.classes.check(&tenant.name_any(), &filters, request.old.as_ref(), object).await;
        Ok(self.denials.verdict(request, &tenant, checked))
    }
}
