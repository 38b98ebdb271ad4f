//! Labels and annotations of namespaces that the Tenant manages. Pure.

use std::collections::{BTreeMap, BTreeSet};

use capsule::api::{
    names::{
        CORDONED_LABEL, NAMESPACE_NAME_LABEL, NODE_SELECTOR_ANNOTATION, RESERVED_LABELS, TENANT_LABEL,
        is_reserved_annotation,
    },
    v1beta2::{Metadata, Tenant},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use operator_core::admission::Denial;

use super::name_rules::provisional_name;
use crate::{
    namespace_metadata::{self, foreign_metadata},
    plan::{last_applied_metadata, unmanaged_labels},
};

/// Prefix of the Pod Security labels.
const POD_SECURITY: &str = "pod-security.kubernetes.io/";

type Entries = BTreeMap<String, String>;

/// Returns whether the Tenant manages a key, given the metadata that the Tenant sets.
type IsManaged = fn(&str, &Entries) -> bool;

/// Returns the metadata that the webhook sets on a new namespace. The controller sets the rest.
///
/// This is all metadata of the Tenant, with two exceptions. If the metadata changes which selectors
/// match, it is the metadata without a selector. If the name is yet to be generated, it is the
/// metadata that does not depend on the name.
pub(super) fn initial_metadata(tenant: &Tenant, metadata: &ObjectMeta) -> Metadata {
    let labels = metadata.labels.clone().unwrap_or_default();
    let of = |name: &str| {
        let first = namespace_metadata::desired_metadata(&tenant.name_any(), &tenant.spec, name, &labels).0;
        let mut then = labels.clone();
        then.extend(first.labels.clone());
        let is_stable =
            namespace_metadata::desired_metadata(&tenant.name_any(), &tenant.spec, name, &then).0 == first;
        if is_stable { first } else { unconditional_metadata(tenant, name) }
    };
    metadata.name.as_deref().map_or_else(|| name_independent(&provisional_name(metadata), of), of)
}

/// Checks that a new namespace has the metadata that the Tenant sets on all namespaces. It is
/// missing if the mutating webhook was skipped.
pub(super) fn check_initial_metadata(tenant: &Tenant, new: &ObjectMeta) -> Result<(), Denial> {
    let initial = name_independent(&provisional_name(new), |name| unconditional_metadata(tenant, name));
    let entries = tenant.spec.namespace_options.iter().flat_map(|options| &options.additional_metadata_list);
    let selective: Vec<_> = entries.filter(|entry| entry.namespace_selector.is_some()).collect();
    // An entry with a selector may set another value, or one that depends on the name.
    let is_selective = |key: &&String| {
        selective.iter().any(|entry| entry.labels.contains_key(*key) || entry.annotations.contains_key(*key))
    };
    let both = [(&initial.labels, &new.labels), (&initial.annotations, &new.annotations)];
    let mut missing = both.into_iter().flat_map(|(initial, current)| {
        initial.keys().filter(move |key| current.as_ref().is_none_or(|current| !current.contains_key(*key)))
    });
    missing.find(|key| !is_selective(key)).map_or(Ok(()), |key| {
        let (namespace, tenant) = (new.name.as_deref().unwrap_or_default(), tenant.name_any());
        Err(Denial::forbidden(format!(
            "namespace {namespace}: {key} of Tenant {tenant} is missing, because the manager did not answer in time; try again"
        )))
    })
}

/// Returns the metadata that the Tenant sets on every namespace, whatever its labels.
fn unconditional_metadata(tenant: &Tenant, name: &str) -> Metadata {
    let mut spec = tenant.spec.clone();
    if let Some(options) = &mut spec.namespace_options {
        options.additional_metadata_list.retain(|entry| entry.namespace_selector.is_none());
    }
    namespace_metadata::desired_metadata(&tenant.name_any(), &spec, name, &Entries::new()).0
}

/// Returns the metadata that does not depend on the name.
fn name_independent(name: &str, of: impl Fn(&str) -> Metadata) -> Metadata {
    let (mut one, other) = (of(name), of(&format!("{name}x")));
    one.labels.retain(|key, value| other.labels.get(key) == Some(value));
    one.annotations.retain(|key, value| other.annotations.get(key) == Some(value));
    one
}

/// Returns the metadata that the controller would set on a namespace with this metadata.
pub(super) fn desired(tenant: &Tenant, metadata: &ObjectMeta) -> Metadata {
    let labels = unmanaged_labels(metadata, &last_applied_metadata(tenant, metadata));
    let name = metadata.name.as_deref().unwrap_or_default();
    namespace_metadata::desired_metadata(&tenant.name_any(), &tenant.spec, name, &labels).0
}

/// Removes the labels and annotations that the Tenant does not set, if it allows only its own.
/// Returns whether something was removed.
pub(super) fn remove_foreign(tenant: &Tenant, metadata: &mut ObjectMeta) -> bool {
    let foreign = foreign_metadata(&tenant.spec, metadata, &desired(tenant, metadata));
    let both = [(&mut metadata.labels, &foreign.labels), (&mut metadata.annotations, &foreign.annotations)];
    for (present, foreign) in both {
        if let Some(present) = present {
            present.retain(|key, _| !foreign.contains_key(key));
        }
    }
    foreign != Metadata::default()
}

/// Checks that an owner does not change metadata that the Tenant manages, or reserved keys. Owners
/// may always set the value that the Tenant sets.
pub(super) fn check(tenant: &Tenant, old: Option<&ObjectMeta>, new: &ObjectMeta) -> Result<(), Denial> {
    compare(tenant, old, new, |key, desired| is_reserved(key) || is_set_by_tenant(key, desired))
}

/// Checks the same for other users, who may change reserved keys that the Tenant does not set.
pub(super) fn check_managed(tenant: &Tenant, old: &ObjectMeta, new: &ObjectMeta) -> Result<(), Denial> {
    compare(tenant, Some(old), new, is_set_by_tenant)
}

/// Restores metadata of the Tenant that an update removes or changes. Returns the restored labels
/// and annotations for a message.
pub(super) fn restore_metadata(tenant: &Tenant, old: &ObjectMeta, new: &mut ObjectMeta) -> Vec<String> {
    let desired = desired(tenant, new);
    let both = [
        ("label", &old.labels, &mut new.labels, &desired.labels),
        ("annotation", &old.annotations, &mut new.annotations, &desired.annotations),
    ];
    let mut restored = Vec::new();
    for (field, old, new, desired) in both {
        let none = Entries::new();
        let old = old.as_ref().unwrap_or(&none);
        let changed = unauthorized_changes(old, new.as_ref().unwrap_or(&none), desired, is_set_by_tenant);
        for key in changed {
            restored.push(format!("{field} {key}"));
            match desired.get(&key).or_else(|| old.get(&key)) {
                Some(value) => drop(new.get_or_insert_default().insert(key, value.clone())),
                None => drop(new.get_or_insert_default().remove(&key)),
            }
        }
    }
    restored
}

fn compare(
    tenant: &Tenant,
    old: Option<&ObjectMeta>,
    new: &ObjectMeta,
    is_managed: IsManaged,
) -> Result<(), Denial> {
    let desired = desired(tenant, new);
    let labels = |metadata: &ObjectMeta| metadata.labels.clone().unwrap_or_default();
    let annotations = |metadata: &ObjectMeta| metadata.annotations.clone().unwrap_or_default();
    let name = new.name.as_deref().unwrap_or_default();
    let check = |field, before: Option<Entries>, after: &Entries, desired: &Entries| {
        let key = unauthorized_change(&before.unwrap_or_default(), after, desired, is_managed)?;
        Some(denial(name, field, &key, tenant))
    };
    check("label", old.map(labels), &labels(new), &desired.labels)
        .or_else(|| check("annotation", old.map(annotations), &annotations(new), &desired.annotations))
        .map_or(Ok(()), Err)
}

fn denial(namespace: &str, field: &str, key: &str, tenant: &Tenant) -> Denial {
    let source = if key == NODE_SELECTOR_ANNOTATION { " in spec.nodeSelector" } else { "" };
    let tenant = tenant.name_any();
    Denial::forbidden(format!(
        "namespace {namespace}: the {field} {key} is managed by Tenant {tenant}{source}; leave it unchanged, or ask an \
         administrator"
    ))
}

/// Returns the first managed key that is changed to a value other than the desired one.
fn unauthorized_change(
    old: &Entries,
    new: &Entries,
    desired: &Entries,
    is_managed: IsManaged,
) -> Option<String> {
    unauthorized_changes(old, new, desired, is_managed).into_iter().next()
}

fn unauthorized_changes(
    old: &Entries,
    new: &Entries,
    desired: &Entries,
    is_managed: IsManaged,
) -> Vec<String> {
    let keys: BTreeSet<_> = old.keys().chain(new.keys()).filter(|key| is_managed(key, desired)).collect();
    let changed = keys.into_iter().filter(|key| old.get(*key) != new.get(*key));
    changed.filter(|key| new.get(*key) != desired.get(*key)).cloned().collect()
}

/// Returns whether the Tenant sets a key. If the Tenant sets a level of Pod Security, this includes
/// the version label of the level, because older versions are less strict.
fn is_set_by_tenant(key: &str, desired: &Entries) -> bool {
    let level = key.strip_suffix("-version").filter(|level| level.starts_with(POD_SECURITY));
    desired.contains_key(key) || level.is_some_and(|level| desired.contains_key(level))
}

/// Reserved keys that are not checked here. The label of the Tenant is validated as membership,
/// owners may cordon their namespaces, and the API server writes the name label.
const NOT_VALIDATED_HERE: [&str; 3] = [TENANT_LABEL, CORDONED_LABEL, NAMESPACE_NAME_LABEL];

fn is_reserved(key: &str) -> bool {
    key == NODE_SELECTOR_ANNOTATION
        || ((RESERVED_LABELS.contains(&key) || is_reserved_annotation(key))
            && !NOT_VALIDATED_HERE.contains(&key))
}
