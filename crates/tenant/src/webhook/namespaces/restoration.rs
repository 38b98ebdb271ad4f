//! Restores the label, owner reference, and metadata that an update removes from a namespace of a
//! Tenant. Pure.
//!
//! The update is not denied, because pipelines replace whole manifests, which do not contain the
//! metadata of the Tenant. An update that assigns the namespace to another Tenant is not restored;
//! [`validate`](super::validate) denies it.

use capsule::{
    api::{names::TENANT_LABEL, v1beta2::Tenant},
    membership::{self, referenced_tenants},
    subjects::Role,
};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::ResourceExt;
use operator_core::{kind::uid, owner::refers_to};

use super::{
    metadata::{remove_foreign, restore_metadata},
    tenant_references::TenantReferences,
};
use crate::webhook::lookups::AdmissionContext;

/// A namespace as changed by the webhook.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MutatedNamespace {
    pub(super) namespace: Namespace,
    /// The changes of the request that were undone.
    pub(super) warnings: Vec<String>,
}

impl From<Namespace> for MutatedNamespace {
    fn from(namespace: Namespace) -> Self {
        Self { namespace, warnings: Vec::new() }
    }
}

/// Returns the namespace with restored label, owner reference, and metadata of the Tenant. Returns
/// `None` if the request does not change them, or the user may not change the namespace. For users
/// who may not change the membership of namespaces, only metadata is restored.
pub(super) fn restore(
    old: &Namespace,
    new: &Namespace,
    context: &AdmissionContext,
) -> Option<MutatedNamespace> {
    let tenant = tenant_of(old, context)?;
    let mut mutated = MutatedNamespace::from(new.clone());
    if TenantReferences::of(&old.metadata) != TenantReferences::of(&new.metadata) {
        let is_removed = context.role == Role::Administrator && TenantReferences::of(&new.metadata).is_none();
        if is_removed || context.role == Role::Other || names_another(new, tenant) {
            return None;
        }
        mutated.warnings.push(restore_membership(old, &mut mutated.namespace, tenant, context.role));
    }
    let restored = restore_metadata(tenant, &old.metadata, &mut mutated.namespace.metadata);
    if !restored.is_empty() {
        mutated.warnings.push(format!(
            "namespace {}: restored the {}, which Tenant {} manages",
            old.name_any(),
            restored.join(", the "),
            tenant.name_any()
        ));
    }
    let is_reduced = context.role != Role::Other && remove_foreign(tenant, &mut mutated.namespace.metadata);
    (is_reduced || !mutated.warnings.is_empty()).then_some(mutated)
}

/// Returns the Tenant of a namespace, unless the user may own Tenants and does not own this one.
fn tenant_of<'f>(namespace: &Namespace, context: &'f AdmissionContext) -> Option<&'f Tenant> {
    let names = referenced_tenants(&namespace.metadata);
    let [name] = names.as_slice() else { return None };
    let tenants = match context.role {
        Role::Administrator | Role::Other => &context.referenced,
        Role::CapsuleUser => &context.owned,
        Role::Manager => return None,
    };
    let tenant = tenants.get(name)?;
    let belongs =
        membership::check_membership(&namespace.metadata, tenant, &context.manager_namespace).is_ok();
    belongs.then_some(tenant)
}

/// Returns whether a namespace references another Tenant.
fn names_another(namespace: &Namespace, tenant: &Tenant) -> bool {
    let references = TenantReferences::of(&namespace.metadata);
    let (name, uid) = (tenant.name_any(), uid(tenant));
    references.label.is_some_and(|label| !label.is_empty() && label != name)
        || references.owner_references.iter().any(|reference| reference.name != name || reference.uid != uid)
}

/// Restores label and owner reference. Returns the warning.
fn restore_membership(old: &Namespace, new: &mut Namespace, tenant: &Tenant, role: Role) -> String {
    let (before, after) = (TenantReferences::of(&old.metadata), TenantReferences::of(&new.metadata));
    let label = (before.label != after.label).then(|| format!("label {TENANT_LABEL}"));
    let reference = (before.owner_references != after.owner_references).then(|| "owner reference".to_owned());
    let restored: Vec<_> = label.into_iter().chain(reference).collect();
    new.labels_mut().insert(TENANT_LABEL.to_owned(), tenant.name_any());
    let others = |namespace: &Namespace| -> Vec<OwnerReference> {
        let all = namespace.owner_references().iter();
        all.filter(|reference| !refers_to::<Tenant>(reference)).cloned().collect()
    };
    let mut references = others(new);
    if references == others(old) {
        references = old.owner_references().to_vec();
    } else {
        references.extend(TenantReferences::of(&old.metadata).owner_references.into_iter().cloned());
    }
    *new.owner_references_mut() = references;
    let remedy = if role == Role::Administrator {
        "to remove the namespace from the Tenant, remove label and owner reference together"
    } else {
        "only administrators can remove the namespace from the Tenant"
    };
    format!(
        "namespace {}: restored the {} of Tenant {}; {remedy}",
        old.name_any(),
        restored.join(" and the "),
        tenant.name_any()
    )
}
