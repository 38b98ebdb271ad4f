//! What the API server asks about Tenants and what belongs to them, before it stores it.
//!
//! Schema and CEL have said before what they can: the form of names, and that a pattern is RE2. What is left is
//! whether this manager can use a pattern, whether the API server will take what is copied into other objects, and
//! whether a Tenant may be deleted.
//!
//! ```text
//! namespaces  finds the Tenant of a namespace that is created, and guards what makes it belong there
//! classes     fills in and judges the classes of Ingresses and volume claims; services gives Services their metadata;
//!             both ask tenancy for the Tenant of a namespace
//! managed     guards the objects that the controller keeps; shared_quota keeps the namespaces of a Tenant within the
//!             quotas that they share
//! system      the policy that holds the cluster's own namespaces free of Tenants
//! name_label  gives Tenants the label with their name
//! copied      what a Tenant has copied into other objects, as the API server will check it there
//! known       what is known of who asks; who is never asked about
//! live        Tenants as the API server has them, read at a bounded rate; rate limits other work on account of reviews
//! ```

mod classes;
mod copied;
mod live_tenants;
mod lookups;
mod managed;
mod match_conditions;
mod name_label;
mod namespaces;
pub(crate) mod patterns;
mod rate_limits;
mod services;
mod shared_quota;
mod system;
mod tenancy;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::ResourceExt;
use operator_core::admission::{
    BoxError, CREATE, Caches, DELETE, Denial, Operation, Request, UPDATE, Validator, Verdict, Webhook, target,
};

use crate::{
    api::{names::TENANT_LABEL, v1beta2::Tenant},
    unsupported_fields,
};

/// A Tenant's finalizer and status change without its spec. Nobody is asked about that, so that the controller needs
/// no webhook to do its work.
const SPEC_CHANGES: &str = "request.operation != 'UPDATE' || object.spec != oldObject.spec";
/// All other Tenants can be deleted without anybody being asked.
const IS_PROTECTED: &str = "request.operation != 'DELETE' || \
    (has(oldObject.spec.preventDeletion) && oldObject.spec.preventDeletion)";

/// The webhooks of the controller.
pub(crate) fn webhooks() -> Vec<Webhook> {
    let tenants = Webhook::validating::<TenantValidator>("tenants")
        .on(target::<Tenant>(CREATE | UPDATE | DELETE))
        .match_condition("spec-changes", SPEC_CHANGES)
        .match_condition("is-protected", IS_PROTECTED)
        .build();
    let namespaces = [namespaces::assignment(), namespaces::guard()];
    let kept = [managed::guard(), shared_quota::guard()];
    let classes = classes::webhooks().into_iter().chain(services::webhooks());
    [tenants, name_label::webhook()].into_iter().chain(namespaces).chain(kept).chain(classes).collect()
}

/// The namespaces of Tenants.
fn in_tenants() -> LabelSelector {
    labelled(TENANT_LABEL)
}

/// What has a label, whatever its value.
fn labelled(label: &str) -> LabelSelector {
    let exists =
        LabelSelectorRequirement { key: label.to_owned(), operator: "Exists".to_owned(), values: None };
    LabelSelector { match_expressions: Some(vec![exists]), match_labels: None }
}

pub(crate) use system::policies;

/// Judges Tenants.
struct TenantValidator;

impl Validator for TenantValidator {
    type Object = Tenant;

    fn build(_: &mut Caches<'_>) -> Self {
        Self
    }

    async fn validate(&self, request: &Request<Tenant>) -> Result<Verdict, BoxError> {
        Ok(judge(request))
    }
}

fn judge(request: &Request<Tenant>) -> Verdict {
    match (request.operation, &request.old, &request.new) {
        (Operation::Delete, Some(old), _) => may_go(old).into(),
        (Operation::Update, Some(old), Some(new)) if old.spec == new.spec => Verdict::allow(),
        (_, old, Some(new)) => may_be(old.as_ref(), new),
        _ => Verdict::allow(),
    }
}

fn may_go(tenant: &Tenant) -> Result<(), Denial> {
    if !tenant.spec.prevent_deletion {
        return Ok(());
    }
    let name = tenant.name_any();
    Err(Denial::forbidden(format!(
        "Tenant {name} is protected: set spec.preventDeletion to false to delete it, and all of its namespaces"
    )))
}

fn may_be(old: Option<&Tenant>, tenant: &Tenant) -> Verdict {
    let faults: Vec<_> =
        patterns::faults(&tenant.spec).into_iter().chain(copied_faults(old, tenant)).collect();
    if !faults.is_empty() {
        return Verdict::deny(Denial::invalid(faults.join("; ")));
    }
    let warn = |verdict: Verdict, field: &str| {
        verdict.warn(format!("{field} is set, and not enforced by this version of the manager"))
    };
    unsupported_fields::fields(&tenant.spec).into_iter().fold(Verdict::allow(), warn)
}

/// Says what is wrong with copied values, as far as it was not so before: a Tenant that is stored with faults can still
/// be cordoned, protected or mended step by step.
fn copied_faults(old: Option<&Tenant>, new: &Tenant) -> Option<String> {
    let of = |tenant: &Tenant| copied::faults(&tenant.name_any(), &tenant.spec);
    let before = old.map(of).unwrap_or_default();
    of(new).since(&before).message()
}

#[cfg(test)]
mod tests;
