//! What a request takes off a namespace of a Tenant and is put back, instead of refusing the request: pipelines replace
//! whole manifests, which do not have what the Tenant gives. Pure.
//!
//! What makes a namespace another Tenant's is not put back but refused, by [`judge`](super::judge).

use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::ResourceExt;
use operator_core::{kind::uid, owner::refers_to};

use super::{claim::Claim, metadata::put_right};
use crate::{
    api::{names::TENANT_LABEL, v1beta2::Tenant},
    membership::{self, named},
    subjects::Role,
    webhook::lookups::Facts,
};

/// A namespace as it is to be stored instead.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Assigned {
    pub(super) namespace: Namespace,
    /// What was not done as the request asks.
    pub(super) warnings: Vec<String>,
}

impl From<Namespace> for Assigned {
    fn from(namespace: Namespace) -> Self {
        Self { namespace, warnings: Vec::new() }
    }
}

/// Returns the namespace with its label, owner reference and given metadata as they are to be, if the request changes them
/// and the user may change the namespace at all.
pub(super) fn restore(old: &Namespace, new: &Namespace, facts: &Facts) -> Option<Assigned> {
    let tenant = tenant_of(old, facts)?;
    let mut assigned = Assigned::from(new.clone());
    if Claim::of(&old.metadata) != Claim::of(&new.metadata) {
        let leaves = facts.role == Role::Administrator && Claim::of(&new.metadata).is_none();
        if leaves || names_another(new, tenant) {
            return None;
        }
        assigned.warnings.push(keep_membership(old, &mut assigned.namespace, tenant, facts.role));
    }
    let kept = put_right(tenant, &old.metadata, &mut assigned.namespace.metadata);
    if !kept.is_empty() {
        assigned.warnings.push(format!(
            "namespace {}: Tenant {} sets the {}; kept as the Tenant sets it",
            old.name_any(),
            tenant.name_any(),
            kept.join(", the ")
        ));
    }
    (!assigned.warnings.is_empty()).then_some(assigned)
}

/// The Tenant to which a namespace belongs, if the user may change it: administrators, and its owners.
fn tenant_of<'f>(namespace: &Namespace, facts: &'f Facts) -> Option<&'f Tenant> {
    let names = named(&namespace.metadata);
    let [name] = names.as_slice() else { return None };
    let known = match facts.role {
        Role::Administrator => &facts.named,
        Role::CapsuleUser => &facts.owned,
        Role::Manager | Role::Other => return None,
    };
    let tenant = known.get(name)?;
    let belongs = membership::judge(&namespace.metadata, tenant, &facts.manager_namespace).is_ok();
    belongs.then_some(tenant)
}

/// Whether a namespace names anything that is not this very Tenant.
fn names_another(namespace: &Namespace, tenant: &Tenant) -> bool {
    let claim = Claim::of(&namespace.metadata);
    let (name, uid) = (tenant.name_any(), uid(tenant));
    claim.label.is_some_and(|label| !label.is_empty() && label != name)
        || claim.references.iter().any(|reference| reference.name != name || reference.uid != uid)
}

/// Puts label and owner reference back as they were. Returns the warning.
fn keep_membership(old: &Namespace, new: &mut Namespace, tenant: &Tenant, role: Role) -> String {
    let (was, asked) = (Claim::of(&old.metadata), Claim::of(&new.metadata));
    let label = (was.label != asked.label).then(|| format!("label {TENANT_LABEL}"));
    let reference = (was.references != asked.references).then(|| "owner reference".to_owned());
    let kept: Vec<_> = label.into_iter().chain(reference).collect();
    new.labels_mut().insert(TENANT_LABEL.to_owned(), tenant.name_any());
    let others = |namespace: &Namespace| -> Vec<OwnerReference> {
        let all = namespace.owner_references().iter();
        all.filter(|reference| !refers_to::<Tenant>(reference)).cloned().collect()
    };
    let mut references = others(new);
    if references == others(old) {
        references = old.owner_references().to_vec();
    } else {
        references.extend(Claim::of(&old.metadata).references.into_iter().cloned());
    }
    *new.owner_references_mut() = references;
    let advice = if role == Role::Administrator {
        "remove label and owner reference together to take it out"
    } else {
        "only administrators can take it out"
    };
    format!(
        "namespace {}: the {} of Tenant {} stays; {advice}",
        old.name_any(),
        kept.join(" and the "),
        tenant.name_any()
    )
}
