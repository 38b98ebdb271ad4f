//! Admission webhooks and policies for Tenants and the objects in their namespaces.
//!
//! The schema and its CEL rules validate the form of names and that a pattern is RE2. The Tenant
//! webhook validates the rest: that the manager supports a pattern, that the API server accepts the
//! values that are propagated to other objects, and that the Tenant may be deleted.
//!
//! ```text
//! namespaces          assigns new namespaces to Tenants; validates membership and metadata
//! ingresses           classes and host names of Ingresses
//! volume_claims       classes and volumes of PersistentVolumeClaims
//! pods                images, classes, and metadata of Pods
//! services            types, external addresses, and keys of Services
//! service_metadata    sets labels and annotations on Services and EndpointSlices
//! promotions          who may promote ServiceAccounts
//! cordoning           denies changes in cordoned namespaces
//! managed_objects     denies writes to the objects that the controller manages
//! shared_quota        enforces the quotas that the namespaces of a Tenant share
//! admission_policies  ValidatingAdmissionPolicies, which also hold while the manager is down
//! name_label          sets the label with the name of the Tenant
//! propagated_values   validates the values that the controller copies to other objects
//! class_webhooks      classes of Gateways, ResourceClaims, and ResourceClaimTemplates
//! classes             whether a Tenant allows the class of an object
//! policy_reader       the compiled policy of the Tenant of a namespace
//! denial_events       Events about denied requests
//! lookups             the role and the Tenants of the requesting user
//! tenant_resolver     the Tenant of a namespace
//! live_tenants        Tenants from the API server, read at a limited rate
//! match_conditions    CEL expressions that exclude requests from the webhooks
//! rate_limits         token buckets by key
//! ```

mod admission_policies;
mod class_webhooks;
mod classes;
mod cordoning;
mod denial_events;
mod ingresses;
mod live_tenants;
mod lookups;
mod managed_objects;
mod match_conditions;
mod name_label;
mod namespaces;
mod pods;
mod policy_reader;
mod promotions;
mod propagated_values;
mod rate_limits;
mod service_metadata;
mod services;
mod shared_quota;
mod tenant_resolver;
mod volume_claims;

use capsule::api::{names::TENANT_LABEL, v1beta2::Tenant};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::ResourceExt;
use operator_core::admission::{
    BoxError, CREATE, Caches, DELETE, Denial, Operation, Request, UPDATE, Validator, Verdict, Webhook, target,
};

use crate::{shared_quotas, spec_patterns, unsupported_fields};

/// Skips updates of metadata and status.
const SPEC_CHANGES: &str = "request.operation != 'UPDATE' || object.spec != oldObject.spec";
/// Skips updates of finalizers, status, and other annotations than those that limit the number of
/// objects, so that the controller works without the webhook.
const TENANT_CHANGES: &str = "request.operation != 'UPDATE' || object.spec != oldObject.spec || \
    !object.metadata.?annotations.orValue({}).all(key, \
    !key.startsWith('quota.resources.capsule.clastix.io/') || \
    object.metadata.?annotations[?key] == oldObject.metadata.?annotations[?key])";
/// Skips the deletion of Tenants that are not protected.
const IS_PROTECTED: &str = "request.operation != 'DELETE' || \
    (has(oldObject.spec.preventDeletion) && oldObject.spec.preventDeletion)";

/// Returns the webhooks of the controller.
pub(crate) fn webhooks() -> Vec<Webhook> {
    let tenants = Webhook::validating::<TenantValidator>("tenants")
        .on(target::<Tenant>(CREATE | UPDATE | DELETE))
        .match_condition("tenant-changes", TENANT_CHANGES)
        .match_condition("is-protected", IS_PROTECTED)
        .build();
    let namespaces = [namespaces::mutating_webhook(), namespaces::validating_webhook()];
    let managed = [managed_objects::webhook(), shared_quota::webhook()];
    let content =
        [ingresses::webhooks(), volume_claims::webhooks(), pods::webhooks(), service_metadata::webhooks()];
    let all = [tenants, name_label::webhook(), cordoning::webhook()]
        .into_iter()
        .chain([promotions::webhook(), services::webhook()]);
    let all = all.chain(class_webhooks::webhooks());
    all.chain(namespaces).chain(managed).chain(content.into_iter().flatten()).collect()
}

/// Selects the namespaces of Tenants.
fn in_tenants() -> LabelSelector {
    has_label(TENANT_LABEL)
}

/// Selects objects with a label, whatever its value.
fn has_label(label: &str) -> LabelSelector {
    let exists =
        LabelSelectorRequirement { key: label.to_owned(), operator: "Exists".to_owned(), values: None };
    LabelSelector { match_expressions: Some(vec![exists]), match_labels: None }
}

pub(crate) use admission_policies::policies;

/// Validates Tenants.
struct TenantValidator;

impl Validator for TenantValidator {
    type Object = Tenant;

    fn build(_: &mut Caches<'_>) -> Self {
        Self
    }

    async fn validate(&self, request: &Request<Tenant>) -> Result<Verdict, BoxError> {
        Ok(validate(request))
    }
}

fn validate(request: &Request<Tenant>) -> Verdict {
    match (request.operation, &request.old, &request.new) {
        (Operation::Delete, Some(old), _) => validate_deletion(old).into(),
        (_, old, Some(new)) => validate_change(old.as_ref(), new),
        _ => Verdict::allow(),
    }
}

fn validate_deletion(tenant: &Tenant) -> Result<(), Denial> {
    if !tenant.spec.prevent_deletion {
        return Ok(());
    }
    let name = tenant.name_any();
    Err(Denial::forbidden(format!(
        "Tenant {name} is protected: set spec.preventDeletion to false to delete it and all of its namespaces"
    )))
}

fn validate_change(old: Option<&Tenant>, tenant: &Tenant) -> Verdict {
    let spec = (old.is_none_or(|old| old.spec != tenant.spec)).then(|| spec_errors(old, tenant));
    let annotations = old
        .is_none_or(|old| shared_quotas::annotations(old) != shared_quotas::annotations(tenant))
        .then(|| shared_quotas::errors(tenant).into_iter().map(|error| error.to_string()));
    let errors: Vec<_> = spec.into_iter().flatten().chain(annotations.into_iter().flatten()).collect();
    if !errors.is_empty() {
        return Verdict::deny(Denial::invalid(errors.join("; ")));
    }
    warnings(tenant).into_iter().fold(Verdict::allow(), Verdict::warn)
}

fn spec_errors(old: Option<&Tenant>, tenant: &Tenant) -> Vec<String> {
    spec_patterns::errors(&tenant.spec).into_iter().chain(new_violations(old, tenant)).collect()
}

fn warnings(tenant: &Tenant) -> Vec<String> {
    let unsupported = unsupported_fields::fields(&tenant.spec).into_iter();
    let unsupported = unsupported
        .map(|field| format!("{field} is set, but this version of the manager does not enforce it"));
    let deprecated = (!shared_quotas::annotations(tenant).is_empty()).then(|| {
        "annotations quota.resources.capsule.clastix.io are deprecated; use spec.resourceQuotas with \
         count/<plural>.<group>"
            .to_owned()
    });
    unsupported.chain(deprecated).collect()
}

/// Returns the errors in propagated values that the old Tenant does not have. A stored Tenant with
/// errors can therefore still be cordoned, protected, or corrected step by step.
fn new_violations(old: Option<&Tenant>, new: &Tenant) -> Option<String> {
    let violations = |tenant: &Tenant| propagated_values::validate(&tenant.name_any(), &tenant.spec);
    let before = old.map(violations).unwrap_or_default();
    violations(new).since(&before).message()
}

#[cfg(test)]
mod tests;
