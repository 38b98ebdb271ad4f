//! Assigns namespaces to Tenants. Pure.

use std::{collections::BTreeMap, sync::Arc};

use capsule::{
    api::{names::TENANT_LABEL, v1beta2::Tenant},
    subjects::Role,
};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{Resource, ResourceExt};
use operator_core::{
    admission::{Denial, Operation, Request},
    kind::uid,
    owner::refers_to,
};

use super::{
    metadata::{initial_metadata, remove_foreign},
    name_rules::{name_without_prefix, provisional_name},
    restoration::{MutatedNamespace, restore},
    tenant_references::TenantReferences,
};
use crate::webhook::lookups::AdmissionContext;

/// Returns the mutated namespace, or `None` if the request is not changed.
///
/// A new namespace gets the label, the owner reference, and the metadata of its Tenant. For an
/// update, removed metadata of the Tenant is restored; if an administrator changes the label, the
/// owner reference is changed too. The validating webhook checks everything else.
pub(super) fn assign(
    request: &Request<Namespace>,
    context: &AdmissionContext,
) -> Result<Option<MutatedNamespace>, Denial> {
    match (request.operation, &request.old, &request.new) {
        (Operation::Create, _, Some(new)) => Ok(create(new, context)?.map(MutatedNamespace::from)),
        (Operation::Update, Some(old), Some(new)) => {
            Ok(restore(old, new, context).or_else(|| update(old, new, context).map(MutatedNamespace::from)))
        }
        _ => Ok(None),
    }
}

fn create(new: &Namespace, context: &AdmissionContext) -> Result<Option<Namespace>, Denial> {
    let name = provisional_name(&new.metadata);
    let tenant = match (context.role, TenantReferences::of(&new.metadata).label) {
        (Role::CapsuleUser, None) => Some(choose_tenant(&name, &context.owned)?),
        (Role::CapsuleUser, Some(label)) => {
            Some(context.owned.get(label).ok_or_else(|| not_owned(&name, label, context))?)
        }
        (Role::Administrator | Role::Manager, Some(label)) => context.referenced.get(label),
        _ => None,
    };
    Ok(tenant.map(|tenant| with_tenant(new.clone(), tenant)))
}

/// Chooses the Tenant of a namespace without a label: the only Tenant of the user, or else the one
/// with the longest name that is a prefix of the name of the namespace.
pub(super) fn choose_tenant<'t>(
    namespace: &str,
    owned: &'t BTreeMap<String, Arc<Tenant>>,
) -> Result<&'t Arc<Tenant>, Denial> {
    let mut all = owned.values();
    match (all.next(), all.next()) {
        (None, _) => Err(Denial::forbidden(format!(
            "namespace {namespace}: you own no Tenant, and namespaces that you create must belong to one; ask an \
             administrator to make you an owner of a Tenant"
        ))),
        (Some(only), None) => Ok(only),
        _ => {
            let fitting = owned.iter().filter(|(tenant, _)| name_without_prefix(tenant, namespace).is_some());
            fitting.max_by_key(|(tenant, _)| tenant.len()).map(|(_, tenant)| tenant).ok_or_else(|| {
                Denial::forbidden(format!(
                    "namespace {namespace}: you own several Tenants ({}); select one with the label {TENANT_LABEL}, or with \
                     a name that begins with the name of the Tenant and a dash",
                    owned.keys().cloned().collect::<Vec<_>>().join(", ")
                ))
            })
        }
    }
}

pub(super) fn not_owned(namespace: &str, tenant: &str, context: &AdmissionContext) -> Denial {
    let cause = if context.referenced.contains_key(tenant) {
        format!("is not owned by {}", context.user)
    } else {
        "does not exist".to_owned()
    };
    Denial::forbidden(format!(
        "namespace {namespace}: Tenant {tenant} in the label {TENANT_LABEL} {cause}; use a Tenant that you own, or \
         remove the label"
    ))
}

/// Returns a new namespace with the label, owner reference, and metadata of the Tenant.
fn with_tenant(mut namespace: Namespace, tenant: &Tenant) -> Namespace {
    let metadata = initial_metadata(tenant, &namespace.metadata);
    namespace.labels_mut().extend(metadata.labels);
    namespace.annotations_mut().extend(metadata.annotations);
    namespace.labels_mut().insert(TENANT_LABEL.to_owned(), tenant.name_any());
    if TenantReferences::of(&namespace.metadata).owner_references.is_empty() {
        namespace.owner_references_mut().push(reference(tenant));
    }
    remove_foreign(tenant, &mut namespace.metadata);
    namespace
}

fn reference(tenant: &Tenant) -> OwnerReference {
    OwnerReference {
        api_version: Tenant::api_version(&()).into_owned(),
        kind: Tenant::kind(&()).into_owned(),
        name: tenant.name_any(),
        uid: uid(tenant),
        ..OwnerReference::default()
    }
}

/// Returns the namespace with the owner reference of the Tenant in its new label. Only
/// administrators and the manager can change the label alone.
fn update(old: &Namespace, new: &Namespace, context: &AdmissionContext) -> Option<Namespace> {
    let (before, after) = (TenantReferences::of(&old.metadata), TenantReferences::of(&new.metadata));
    let may = matches!(context.role, Role::Administrator | Role::Manager);
    if !may || before.label == after.label || before.owner_references != after.owner_references {
        return None;
    }
    let tenant = after.label.and_then(|label| context.referenced.get(label));
    let mut changed = new.clone();
    changed.owner_references_mut().retain(|reference| !refers_to::<Tenant>(reference));
    changed.owner_references_mut().extend(tenant.map(|tenant| reference(tenant)));
    Some(changed)
}
