//! Annotations and labels that older versions use instead of fields.

use std::collections::BTreeMap;

use capsule::api::v1beta2::{OwnerKind, ProxyKind, ProxyOperation};
use kube::ResourceExt;

use super::ConversionError;

/// Part of the key of every annotation that a conversion reads.
const DOMAIN: &str = "capsule.clastix.io";
/// Maximum number of entries in all lists in the annotations of a Tenant: four times the maximum of
/// a list in its spec.
const MAX_ENTRIES: usize = 16_384;

/// Cluster roles of an owner. `<kind>.<name>` in lower case, or the index of the owner, follows.
pub(super) const CLUSTER_ROLES: &str = "clusterrolenames.capsule.clastix.io/";
/// Replaces `@`, which is not valid in keys of annotations.
pub(super) const AT: &str = "__AT__";
pub(super) const FORBIDDEN_LABELS: &str = "capsule.clastix.io/forbidden-namespace-labels";
pub(super) const FORBIDDEN_LABELS_REGEXP: &str = "capsule.clastix.io/forbidden-namespace-labels-regexp";
pub(super) const FORBIDDEN_ANNOTATIONS: &str = "capsule.clastix.io/forbidden-namespace-annotations";
pub(super) const FORBIDDEN_ANNOTATIONS_REGEXP: &str =
    "capsule.clastix.io/forbidden-namespace-annotations-regexp";
pub(super) const DENY_WILDCARD: &str = "capsule.clastix.io/deny-wildcard";
pub(super) const CORDON: &str = "capsule.clastix.io/cordon";
/// Value of the label [`CORDON`]. The annotation with the same key is true or false.
pub(super) const CORDON_ENABLED: &str = "enabled";
pub(super) const PROTECTED: &str = "capsule.clastix.io/protected";

/// Annotations of `v1beta1`, in addition to [`CLUSTER_ROLES`].
pub(super) const V1BETA1: [&str; 7] = [
    FORBIDDEN_LABELS,
    FORBIDDEN_LABELS_REGEXP,
    FORBIDDEN_ANNOTATIONS,
    FORBIDDEN_ANNOTATIONS_REGEXP,
    DENY_WILDCARD,
    CORDON,
    PROTECTED,
];

pub(super) const QUOTA_SCOPE: &str = "capsule.clastix.io/resource-quota-scope";
pub(super) const PULL_POLICIES: &str = "capsule.clastix.io/allowed-image-pull-policy";
pub(super) const PRIORITY_CLASSES: &str = "priorityclass.capsule.clastix.io/allowed";
pub(super) const PRIORITY_CLASSES_REGEX: &str = "priorityclass.capsule.clastix.io/allowed-regex";
pub(super) const NODE_PORTS: &str = "capsule.clastix.io/enable-node-ports";
pub(super) const EXTERNAL_NAME: &str = "capsule.clastix.io/enable-external-name";
pub(super) const LOAD_BALANCER: &str = "capsule.clastix.io/enable-loadbalancer-service";
pub(super) const COLLISION_SCOPE: &str = "ingress.capsule.clastix.io/hostname-collision-scope";

/// Annotations of `v1alpha1`, in addition to those of `v1beta1`, [`OWNERS`], and [`PROXY`].
pub(super) const V1ALPHA1: [&str; 8] = [
    QUOTA_SCOPE,
    PULL_POLICIES,
    PRIORITY_CLASSES,
    PRIORITY_CLASSES_REGEX,
    NODE_PORTS,
    EXTERNAL_NAME,
    LOAD_BALANCER,
    COLLISION_SCOPE,
];

/// Annotations that list the owners after the first one, in order.
pub(super) const OWNERS: [(&str, OwnerKind); 3] = [
    ("owners.capsule.clastix.io/user", OwnerKind::User),
    ("owners.capsule.clastix.io/group", OwnerKind::Group),
    ("owners.capsule.clastix.io/serviceaccount", OwnerKind::ServiceAccount),
];

/// Annotations that list the owners who may use an operation of the proxy.
pub(super) const PROXY: [(&str, ProxyKind, ProxyOperation); 12] = [
    ("capsule.clastix.io/enable-node-listing", ProxyKind::Nodes, ProxyOperation::List),
    ("capsule.clastix.io/enable-node-update", ProxyKind::Nodes, ProxyOperation::Update),
    ("capsule.clastix.io/enable-node-deletion", ProxyKind::Nodes, ProxyOperation::Delete),
    ("capsule.clastix.io/enable-storageclass-listing", ProxyKind::StorageClasses, ProxyOperation::List),
    ("capsule.clastix.io/enable-storageclass-update", ProxyKind::StorageClasses, ProxyOperation::Update),
    ("capsule.clastix.io/enable-storageclass-deletion", ProxyKind::StorageClasses, ProxyOperation::Delete),
    ("capsule.clastix.io/enable-ingressclass-listing", ProxyKind::IngressClasses, ProxyOperation::List),
    ("capsule.clastix.io/enable-ingressclass-update", ProxyKind::IngressClasses, ProxyOperation::Update),
    ("capsule.clastix.io/enable-ingressclass-deletion", ProxyKind::IngressClasses, ProxyOperation::Delete),
    ("capsule.clastix.io/enable-priorityclass-listing", ProxyKind::PriorityClasses, ProxyOperation::List),
    ("capsule.clastix.io/enable-priorityclass-update", ProxyKind::PriorityClasses, ProxyOperation::Update),
    ("capsule.clastix.io/enable-priorityclass-deletion", ProxyKind::PriorityClasses, ProxyOperation::Delete),
];

/// The annotations of an object. Reading an annotation removes it.
#[derive(Clone, Debug, Default)]
pub(super) struct Annotations(pub(super) BTreeMap<String, String>);

/// Counts the entries of the lists in the annotations of an object, before a list is split. An entry
/// becomes a struct of hundreds of bytes, and a bound on the size of the object does not see that.
///
/// # Errors
/// Returns an error if there are more entries than a conversion can hold.
pub(super) fn check_entries<K: ResourceExt>(object: &K) -> Result<(), ConversionError> {
    let mut commas = 0;
    for (key, value) in object.annotations().iter().filter(|(key, _)| key.contains(DOMAIN)) {
        commas += value.bytes().filter(|byte| *byte == b',').count();
        if commas > MAX_ENTRIES {
            return Err(ConversionError::TooManyEntries { key: key.clone(), limit: MAX_ENTRIES });
        }
    }
    Ok(())
}

impl Annotations {
    /// Moves the annotations out of the object.
    pub(super) fn take<K: ResourceExt>(object: &mut K) -> Self {
        Self(std::mem::take(object.annotations_mut()))
    }

    /// Moves the annotations into the object.
    pub(super) fn put<K: ResourceExt>(self, object: &mut K) {
        object.meta_mut().annotations = (!self.0.is_empty()).then_some(self.0);
    }

    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        self.0.remove(key)
    }

    /// Returns the entries of a comma-separated list.
    pub(super) fn list(&mut self, key: &str) -> Option<Vec<String>> {
        Some(entries(&self.text(key)?))
    }

    /// Returns a boolean in the syntax of Go.
    pub(super) fn flag(&mut self, key: &str) -> Option<Result<bool, ConversionError>> {
        let value = self.text(key)?;
        Some(flag(&value).ok_or_else(|| ConversionError::Annotation {
            key: key.to_owned(),
            value,
            expected: "true or false",
        }))
    }

    pub(super) fn set(&mut self, key: &str, value: impl Into<String>) {
        self.0.insert(key.to_owned(), value.into());
    }

    /// Sets a comma-separated list, unless it is empty.
    pub(super) fn set_list(&mut self, key: &str, entries: &[String]) {
        if !entries.is_empty() {
            self.set(key, entries.join(","));
        }
    }

    pub(super) fn remove_all<'k>(&mut self, keys: impl IntoIterator<Item = &'k str>) {
        for key in keys {
            self.0.remove(key);
        }
    }
}

pub(super) fn entries(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
}

/// Returns whether a comma-separated list can contain a name.
pub(super) fn is_entry(name: &str) -> bool {
    entries(name) == [name]
}

pub(super) fn flag(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}
