//! Labels and annotations of namespaces that only their Tenant says. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use operator_core::admission::Denial;

use super::names::expected;
use crate::{
    api::{
        names::{
            CORDONED_LABEL, NAMESPACE_NAME_LABEL, NODE_SELECTOR_ANNOTATION, RESERVED_LABELS, TENANT_LABEL,
            is_reserved_annotation,
        },
        v1beta2::{Metadata, Tenant},
    },
    namespace,
    plan::{labels_of_others, remembered},
};

/// The levels of Pod Security are labels in this domain.
const POD_SECURITY: &str = "pod-security.kubernetes.io/";

type Entries = BTreeMap<String, String>;

/// Whether it is for the Tenant to say what a key is, given what it says.
type Guarded = fn(&str, &Entries) -> bool;

/// What a new namespace has at once of what its Tenant says: all of it; where that would change what selectors choose,
/// what is for every namespace, and where the API server is yet to make up the name, what is the same for every name.
/// The controller sees to the rest.
pub(super) fn given(tenant: &Tenant, metadata: &ObjectMeta) -> Metadata {
    let labels = metadata.labels.clone().unwrap_or_default();
    let of = |name: &str| {
        let first = namespace::wanted(&tenant.name_any(), &tenant.spec, name, &labels).0;
        let mut then = labels.clone();
        then.extend(first.labels.clone());
        let is_stable = namespace::wanted(&tenant.name_any(), &tenant.spec, name, &then).0 == first;
        if is_stable { first } else { for_all(tenant, name) }
    };
    metadata.name.as_deref().map_or_else(|| for_any_name(&expected(metadata), of), of)
}

/// Whether a new namespace has what its Tenant gives all of them, which it has not if the manager was not asked for it.
pub(super) fn check_given(tenant: &Tenant, new: &ObjectMeta) -> Result<(), Denial> {
    let given = for_any_name(&expected(new), |name| for_all(tenant, name));
    let entries = tenant.spec.namespace_options.iter().flat_map(|options| &options.additional_metadata_list);
    let chosen: Vec<_> = entries.filter(|entry| entry.namespace_selector.is_some()).collect();
    // What is for some of them as well may have another value here, or depend on the name.
    let is_for_some = |key: &&String| {
        chosen.iter().any(|entry| entry.labels.contains_key(*key) || entry.annotations.contains_key(*key))
    };
    let both = [(&given.labels, &new.labels), (&given.annotations, &new.annotations)];
    let mut missing = both.into_iter().flat_map(|(given, there)| {
        given.keys().filter(move |key| there.as_ref().is_none_or(|there| !there.contains_key(*key)))
    });
    missing.find(|key| !is_for_some(key)).map_or(Ok(()), |key| {
        let (namespace, tenant) = (new.name.as_deref().unwrap_or_default(), tenant.name_any());
        Err(Denial::forbidden(format!(
            "namespace {namespace}: it was not given {key}, as Tenant {tenant} says, since the manager did not answer in time; \
             try again"
        )))
    })
}

/// What the Tenant says of every namespace, whatever its labels.
fn for_all(tenant: &Tenant, name: &str) -> Metadata {
    let mut spec = tenant.spec.clone();
    if let Some(options) = &mut spec.namespace_options {
        options.additional_metadata_list.retain(|entry| entry.namespace_selector.is_none());
    }
    namespace::wanted(&tenant.name_any(), &spec, name, &Entries::new()).0
}

/// What does not depend on the name.
fn for_any_name(name: &str, of: impl Fn(&str) -> Metadata) -> Metadata {
    let (mut one, other) = (of(name), of(&format!("{name}x")));
    one.labels.retain(|key, value| other.labels.get(key) == Some(value));
    one.annotations.retain(|key, value| other.annotations.get(key) == Some(value));
    one
}

/// What the Tenant says of a namespace with this metadata, as the controller sees it.
fn wanted(tenant: &Tenant, metadata: &ObjectMeta) -> Metadata {
    let labels = labels_of_others(metadata, &remembered(tenant, metadata));
    let name = metadata.name.as_deref().unwrap_or_default();
    namespace::wanted(&tenant.name_any(), &tenant.spec, name, &labels).0
}

/// Whether what owners of a Tenant make of its namespace leaves alone what is for the Tenant to say. They may always
/// make it what the Tenant says.
pub(super) fn check(tenant: &Tenant, old: Option<&ObjectMeta>, new: &ObjectMeta) -> Result<(), Denial> {
    compare(tenant, old, new, |key, wanted| is_reserved(key) || is_given(key, wanted))
}

/// The same for everybody else, who may use the reserved keys that the Tenant does not.
pub(super) fn check_kept(tenant: &Tenant, old: &ObjectMeta, new: &ObjectMeta) -> Result<(), Denial> {
    compare(tenant, Some(old), new, is_given)
}

/// Puts back what the Tenant gives and a change takes off or gives another value. Returns what that is, for people.
pub(super) fn put_right(tenant: &Tenant, old: &ObjectMeta, new: &mut ObjectMeta) -> Vec<String> {
    let wanted = wanted(tenant, new);
    let both = [
        ("label", &old.labels, &mut new.labels, &wanted.labels),
        ("annotation", &old.annotations, &mut new.annotations, &wanted.annotations),
    ];
    let mut kept = Vec::new();
    for (what, old, new, wanted) in both {
        let none = Entries::new();
        let old = old.as_ref().unwrap_or(&none);
        let foreign = all_foreign(old, new.as_ref().unwrap_or(&none), wanted, is_given);
        for key in foreign {
            kept.push(format!("{what} {key}"));
            match wanted.get(&key).or_else(|| old.get(&key)) {
                Some(value) => drop(new.get_or_insert_default().insert(key, value.clone())),
                None => drop(new.get_or_insert_default().remove(&key)),
            }
        }
    }
    kept
}

fn compare(
    tenant: &Tenant,
    old: Option<&ObjectMeta>,
    new: &ObjectMeta,
    guarded: Guarded,
) -> Result<(), Denial> {
    let wanted = wanted(tenant, new);
    let labels = |metadata: &ObjectMeta| metadata.labels.clone().unwrap_or_default();
    let annotations = |metadata: &ObjectMeta| metadata.annotations.clone().unwrap_or_default();
    let name = new.name.as_deref().unwrap_or_default();
    let foreign = |what, before: Option<Entries>, after: &Entries, wanted: &Entries| {
        let key = foreign(&before.unwrap_or_default(), after, wanted, guarded)?;
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

/// A guarded key that is given another value, and not the one that is wanted.
fn foreign(old: &Entries, new: &Entries, wanted: &Entries, guarded: Guarded) -> Option<String> {
    all_foreign(old, new, wanted, guarded).into_iter().next()
}

fn all_foreign(old: &Entries, new: &Entries, wanted: &Entries, guarded: Guarded) -> Vec<String> {
    let keys: BTreeSet<_> = old.keys().chain(new.keys()).filter(|key| guarded(key, wanted)).collect();
    let changed = keys.into_iter().filter(|key| old.get(*key) != new.get(*key));
    changed.filter(|key| new.get(*key) != wanted.get(*key)).cloned().collect()
}

/// Whether the Tenant says what a key is. The version by which a level of Pod Security is read belongs to the level: an
/// older one asks for less.
fn is_given(key: &str, wanted: &Entries) -> bool {
    let level = key.strip_suffix("-version").filter(|level| level.starts_with(POD_SECURITY));
    wanted.contains_key(key) || level.is_some_and(|level| wanted.contains_key(level))
}

/// Reserved keys that are not judged here: the Tenant's own label is looked at elsewhere, a namespace of one's own may be
/// cordoned, and the API server itself writes its name.
const JUDGED_ELSEWHERE: [&str; 3] = [TENANT_LABEL, CORDONED_LABEL, NAMESPACE_NAME_LABEL];

fn is_reserved(key: &str) -> bool {
    key == NODE_SELECTOR_ANNOTATION
        || ((RESERVED_LABELS.contains(&key) || is_reserved_annotation(key))
            && !JUDGED_ELSEWHERE.contains(&key))
}
