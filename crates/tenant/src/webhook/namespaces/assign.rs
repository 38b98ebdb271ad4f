//! Which Tenant a new namespace becomes part of. Pure.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{Resource, ResourceExt};
use operator_core::{
    admission::{Denial, Operation, Request},
    kind::uid,
    owner::refers_to,
};

use super::{
    claim::Claim,
    metadata::given,
    names::{expected, within},
    restore::{Assigned, restore},
};
use crate::{
    api::{names::TENANT_LABEL, v1beta2::Tenant},
    subjects::Role,
    webhook::lookups::Facts,
};

/// The namespace as it is to be stored instead, if it is to be changed.
///
/// Of a namespace that is there already, what its Tenant gives is put back where the request takes it off; where an
/// administrator gives it another label, the owner references follow. The guard says whether the rest may be.
pub(super) fn assign(request: &Request<Namespace>, facts: &Facts) -> Result<Option<Assigned>, Denial> {
    match (request.operation, &request.old, &request.new) {
        (Operation::Create, _, Some(new)) => Ok(create(new, facts)?.map(Assigned::from)),
        (Operation::Update, Some(old), Some(new)) => {
            Ok(restore(old, new, facts).or_else(|| update(old, new, facts).map(Assigned::from)))
        }
        _ => Ok(None),
    }
}

fn create(new: &Namespace, facts: &Facts) -> Result<Option<Namespace>, Denial> {
    let name = expected(&new.metadata);
    let tenant = match (facts.role, Claim::of(&new.metadata).label) {
        (Role::CapsuleUser, None) => Some(choose(&name, &facts.owned)?),
        (Role::CapsuleUser, Some(label)) => {
            Some(facts.owned.get(label).ok_or_else(|| not_owned(&name, label, facts))?)
        }
        (Role::Administrator | Role::Manager, Some(label)) => facts.named.get(label),
        _ => None,
    };
    Ok(tenant.map(|tenant| complete(new.clone(), tenant)))
}

/// Of all Tenants that somebody owns the one that a namespace without a label is for.
pub(super) fn choose<'t>(
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
            let fitting = owned.iter().filter(|(tenant, _)| within(tenant, namespace).is_some());
            fitting.max_by_key(|(tenant, _)| tenant.len()).map(|(_, tenant)| tenant).ok_or_else(|| {
                Denial::forbidden(format!(
                    "namespace {namespace}: you own several Tenants ({}); say which is meant by the label {TENANT_LABEL}, \
                     or by a name that begins with that of the Tenant and a dash",
                    owned.keys().cloned().collect::<Vec<_>>().join(", ")
                ))
            })
        }
    }
}

pub(super) fn not_owned(namespace: &str, tenant: &str, facts: &Facts) -> Denial {
    let why = if facts.named.contains_key(tenant) { "is not owned by" } else { "does not exist for" };
    Denial::forbidden(format!(
        "namespace {namespace}: Tenant {tenant}, which the label {TENANT_LABEL} names, {why} {}; name a Tenant of your \
         own, or leave the label out",
        facts.who
    ))
}

/// A new namespace with all that the Tenant says of it.
fn complete(mut namespace: Namespace, tenant: &Tenant) -> Namespace {
    let metadata = given(tenant, &namespace.metadata);
    namespace.labels_mut().extend(metadata.labels);
    namespace.annotations_mut().extend(metadata.annotations);
    namespace.labels_mut().insert(TENANT_LABEL.to_owned(), tenant.name_any());
    if Claim::of(&namespace.metadata).references.is_empty() {
        namespace.owner_references_mut().push(reference(tenant));
    }
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

/// Has the owner references follow the label, where it alone is changed.
fn update(old: &Namespace, new: &Namespace, facts: &Facts) -> Option<Namespace> {
    let (before, after) = (Claim::of(&old.metadata), Claim::of(&new.metadata));
    let may = matches!(facts.role, Role::Administrator | Role::Manager);
    if !may || before.label == after.label || before.references != after.references {
        return None;
    }
    let tenant = after.label.and_then(|label| facts.named.get(label));
    let mut changed = new.clone();
    changed.owner_references_mut().retain(|reference| !refers_to::<Tenant>(reference));
    changed.owner_references_mut().extend(tenant.map(|tenant| reference(tenant)));
    Some(changed)
}
