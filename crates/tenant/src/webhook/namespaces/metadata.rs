//! Labels and annotations of namespaces that only their Tenant says. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use operator_core::admission::Denial;

use crate::{
    api::{
        names::{CORDONED_LABEL, NODE_SELECTOR_ANNOTATION, TENANT_LABEL},
        v1beta2::{Metadata, Tenant},
    },
    namespace,
};

/// Keys in these domains mean something to this controller.
const DOMAINS: [&str; 2] = ["capsule.clastix.io", "projectcapsule.dev"];

type Entries = BTreeMap<String, String>;

/// What the Tenant says of a namespace with this metadata.
pub(super) fn wanted(tenant: &Tenant, metadata: &ObjectMeta) -> Metadata {
    let (name, labels) =
        (metadata.name.clone().unwrap_or_default(), metadata.labels.clone().unwrap_or_default());
    namespace::wanted(&tenant.name_any(), &tenant.spec, &name, &labels).0
}

/// Whether what owners of a Tenant make of its namespace leaves alone what is for the Tenant to say. They may always
/// make it what the Tenant says.
pub(super) fn check(tenant: &Tenant, old: Option<&ObjectMeta>, new: &ObjectMeta) -> Result<(), Denial> {
    let wanted = wanted(tenant, new);
    let labels = |metadata: &ObjectMeta| metadata.labels.clone().unwrap_or_default();
    let annotations = |metadata: &ObjectMeta| metadata.annotations.clone().unwrap_or_default();
    let name = new.name.as_deref().unwrap_or_default();
    let foreign = |what, before: Option<Entries>, after: &Entries, wanted: &Entries| {
        let key = foreign(&before.unwrap_or_default(), after, wanted)?;
        Some(refusal(name, what, &key, tenant))
    };
    foreign("label", old.map(labels), &labels(new), &wanted.labels)
        .or_else(|| foreign("annotation", old.map(annotations), &annotations(new), &wanted.annotations))
        .map_or(Ok(()), Err)
}

fn refusal(namespace: &str, what: &str, key: &str, tenant: &Tenant) -> Denial {
    let where_ = if key == NODE_SELECTOR_ANNOTATION { " in spec.nodeSelector" } else { "" };
    let tenant = tenant.name_any();
    Denial::forbidden(format!(
        "namespace {namespace}: the {what} {key} is for Tenant {tenant} to say{where_}; leave it as it is, or ask an \
         administrator"
    ))
}

/// A reserved key that is given another value, and not the one that is wanted.
fn foreign(old: &Entries, new: &Entries, wanted: &Entries) -> Option<String> {
    let keys: BTreeSet<_> = old.keys().chain(new.keys()).filter(|key| is_reserved(key)).collect();
    let mut changed = keys.into_iter().filter(|key| old.get(*key) != new.get(*key));
    changed.find(|key| new.get(*key) != wanted.get(*key)).cloned()
}

/// The Tenant's own label is looked at elsewhere; a namespace of one's own may be cordoned.
fn is_reserved(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else { return false };
    let is_ours =
        |ours: &&str| domain.strip_suffix(*ours).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    key == NODE_SELECTOR_ANNOTATION
        || (DOMAINS.iter().any(is_ours) && key != TENANT_LABEL && key != CORDONED_LABEL)
}
