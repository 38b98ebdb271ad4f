//! Labels and annotations of the namespace. Pure functions.
//!
//! Others write to a Namespace too. The controller therefore sets only the keys of the spec and
//! records them in an annotation, so that it can remove keys that the spec no longer contains.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use operator_core::labels::{Labels, recommended};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    api::NamespacePlus,
    ownership::{Identity, OWNER_KEY},
};

/// Annotation of a Namespace that lists the keys from the spec.
pub const MANAGED_KEY: &str = "mygroup.my.domain/managed";

/// Keys from the spec.
#[derive(Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
struct ManagedKeys {
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    labels: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    annotations: BTreeSet<String>,
}

impl ManagedKeys {
    fn by(object: &NamespacePlus) -> Self {
        let keys = |map: &Labels| map.keys().cloned().collect();
        Self { labels: keys(&object.spec.labels), annotations: keys(&object.spec.annotations) }
    }

    /// Reads the keys from the annotation. Invalid content is ignored.
    fn of(namespace: &Namespace) -> Self {
        let text = namespace.annotations().get(MANAGED_KEY);
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    fn into_annotation(self) -> Option<String> {
        if self == Self::default() { None } else { serde_json::to_string(&self).ok() }
    }
}

/// Builds the namespace of a NamespacePlus.
pub(crate) fn new(object: &NamespacePlus, identity: &Identity) -> Namespace {
    let name = object.name_any();
    let mut namespace = Namespace::default();
    let mut labels = recommended("namespaceplus", &name, "namespace");
    labels.extend(object.spec.labels.clone());
    namespace.metadata.labels = Some(labels);
    namespace.metadata.annotations = Some(annotations(object, identity));
    namespace.metadata.name = Some(name);
    namespace
}

/// Returns the merge patch that restores labels and annotations, or `None` if they match the spec.
pub(crate) fn repair_patch(
    object: &NamespacePlus,
    identity: &Identity,
    current: &Namespace,
) -> Option<Value> {
    let mut before = ManagedKeys::of(current);
    before.annotations.insert(MANAGED_KEY.to_owned());
    let labels = difference(current.labels(), &object.spec.labels, &before.labels);
    let desired = annotations(object, identity);
    let annotations = difference(current.annotations(), &desired, &before.annotations);
    patch(current, &labels, &annotations)
}

/// Returns the merge patch that removes the ownership labels and annotations, or `None` if there
/// are none.
pub(crate) fn release_patch(current: &Namespace) -> Option<Value> {
    let ours = recommended("namespaceplus", &current.name_any(), "namespace");
    let labels: BTreeSet<_> = ours
        .into_iter()
        .filter(|(key, value)| current.labels().get(key) == Some(value))
        .map(|(key, _)| key)
        .collect();
    let annotations = [OWNER_KEY, MANAGED_KEY].map(str::to_owned).into();
    let nothing = Labels::default();
    let labels = difference(current.labels(), &nothing, &labels);
    patch(current, &labels, &difference(current.annotations(), &nothing, &annotations))
}

/// Returns all annotations of the namespace that the controller sets.
fn annotations(object: &NamespacePlus, identity: &Identity) -> Labels {
    let mut desired = object.spec.annotations.clone();
    desired.insert(OWNER_KEY.to_owned(), identity.owner_annotation());
    if let Some(managed) = ManagedKeys::by(object).into_annotation() {
        desired.insert(MANAGED_KEY.to_owned(), managed);
    }
    desired
}

/// Returns the keys to set, and with the value `None` the keys of `ours` to remove.
fn difference<'a>(
    present: &'a Labels,
    desired: &'a Labels,
    ours: &'a BTreeSet<String>,
) -> BTreeMap<&'a str, Option<&'a str>> {
    let set = desired
        .iter()
        .filter(|(key, value)| present.get(*key) != Some(value))
        .map(|(key, value)| (key.as_str(), Some(value.as_str())));
    let removed = ours
        .iter()
        .filter(|key| present.contains_key(*key) && !desired.contains_key(*key))
        .map(|key| (key.as_str(), None));
    set.chain(removed).collect()
}

/// Builds a merge patch for exactly this version of the namespace, because the ownership was read
/// from it.
fn patch(
    current: &Namespace,
    labels: &BTreeMap<&str, Option<&str>>,
    annotations: &BTreeMap<&str, Option<&str>>,
) -> Option<Value> {
    if labels.is_empty() && annotations.is_empty() {
        return None;
    }
    Some(json!({ "metadata": {
        "uid": current.uid(),
        "resourceVersion": current.resource_version(),
        "labels": labels,
        "annotations": annotations,
    }}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    /// Applies a merge patch as the API server does.
    fn patched(namespace: &Namespace, patch: &Value) -> Namespace {
        let mut value = serde_json::to_value(namespace).unwrap();
        for field in ["labels", "annotations"] {
            for (key, desired) in patch["metadata"][field].as_object().unwrap() {
                let map = value["metadata"][field].as_object_mut().unwrap();
                map.remove(key);
                if !desired.is_null() {
                    map.insert(key.clone(), desired.clone());
                }
            }
        }
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn new_namespace_needs_no_patch() {
        let object = object(json!({"labels": {"team": "blue"}, "annotations": {"a": "1"}}));
        let identity = Identity::of(&object);
        assert_eq!(repair_patch(&object, &identity, &new(&object, &identity)), None);
    }

    #[test]
    fn removes_dropped_keys_and_keeps_foreign_ones() {
        let before = object(json!({"labels": {"team": "blue", "tier": "1"}, "annotations": {"a": "1"}}));
        let after = object(json!({"labels": {"team": "red"}}));
        let identity = Identity::of(&before);
        let mut namespace = new(&before, &identity);
        namespace.labels_mut().insert("theirs".into(), "x".into());
        let patch = repair_patch(&after, &identity, &namespace).unwrap();
        assert_eq!(patch["metadata"]["labels"], json!({"team": "red", "tier": null}));
        assert_eq!(
            patch["metadata"]["annotations"],
            json!({"a": null, MANAGED_KEY: r#"{"labels":["team"]}"#})
        );
        let namespace = patched(&namespace, &patch);
        assert_eq!(namespace.labels()["theirs"], "x");
        assert_eq!(repair_patch(&after, &identity, &namespace), None);
    }

    #[test]
    fn patch_has_resource_version_and_uid() {
        let object = object(json!({"labels": {"team": "blue"}}));
        let mut namespace = Namespace::default();
        namespace.metadata.resource_version = Some("7".into());
        namespace.metadata.uid = Some("u".into());
        let patch = repair_patch(&object, &Identity::of(&object), &namespace).unwrap();
        assert_eq!(
            (&patch["metadata"]["resourceVersion"], &patch["metadata"]["uid"]),
            (&json!("7"), &json!("u"))
        );
    }

    #[test]
    fn release_removes_only_ownership_keys() {
        let object = object(json!({"labels": {"team": "blue"}, "annotations": {"a": "1"}}));
        let namespace = new(&object, &Identity::of(&object));
        let released = patched(&namespace, &release_patch(&namespace).unwrap());
        assert_eq!(released.labels().iter().collect::<Vec<_>>(), [(&"team".to_owned(), &"blue".to_owned())]);
        assert_eq!(released.annotations().iter().collect::<Vec<_>>(), [(&"a".to_owned(), &"1".to_owned())]);
        assert_eq!(release_patch(&released), None);
    }

    #[test]
    fn release_keeps_foreign_managed_by_label() {
        let mut namespace = Namespace::default();
        namespace.labels_mut().insert("app.kubernetes.io/managed-by".into(), "Helm".into());
        assert_eq!(release_patch(&namespace), None);
    }
}
