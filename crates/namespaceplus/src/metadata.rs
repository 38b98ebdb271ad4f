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
struct Managed {
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    labels: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    annotations: BTreeSet<String>,
}

impl Managed {
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
pub(crate) fn new(object: &NamespacePlus, me: &Identity) -> Namespace {
    let name = object.name_any();
    let mut namespace = Namespace::default();
    let mut labels = recommended("namespaceplus", &name, "namespace");
    labels.extend(object.spec.labels.clone());
    namespace.metadata.labels = Some(labels);
    namespace.metadata.annotations = Some(annotations(object, me));
    namespace.metadata.name = Some(name);
    namespace
}

/// Returns the merge patch that restores labels and annotations, or `None` if they match the spec.
pub(crate) fn repair(object: &NamespacePlus, me: &Identity, seen: &Namespace) -> Option<Value> {
    let mut before = Managed::of(seen);
    before.annotations.insert(MANAGED_KEY.to_owned());
    let labels = difference(seen.labels(), &object.spec.labels, &before.labels);
    let wanted = annotations(object, me);
    let annotations = difference(seen.annotations(), &wanted, &before.annotations);
    patch(seen, &labels, &annotations)
}

/// Returns the merge patch that removes the ownership labels and annotations, or `None` if there
/// are none.
pub(crate) fn release(seen: &Namespace) -> Option<Value> {
    let ours = recommended("namespaceplus", &seen.name_any(), "namespace");
    let labels: BTreeSet<_> = ours
        .into_iter()
        .filter(|(key, value)| seen.labels().get(key) == Some(value))
        .map(|(key, _)| key)
        .collect();
    let annotations = [OWNER_KEY, MANAGED_KEY].map(str::to_owned).into();
    let nothing = Labels::default();
    let labels = difference(seen.labels(), &nothing, &labels);
    patch(seen, &labels, &difference(seen.annotations(), &nothing, &annotations))
}

/// Returns all annotations of the namespace that the controller sets.
fn annotations(object: &NamespacePlus, me: &Identity) -> Labels {
    let mut wanted = object.spec.annotations.clone();
    wanted.insert(OWNER_KEY.to_owned(), me.mark());
    if let Some(managed) = Managed::by(object).into_annotation() {
        wanted.insert(MANAGED_KEY.to_owned(), managed);
    }
    wanted
}

/// Returns the keys to set, and with the value `None` the keys of `ours` to remove.
fn difference<'a>(
    present: &'a Labels,
    wanted: &'a Labels,
    ours: &'a BTreeSet<String>,
) -> BTreeMap<&'a str, Option<&'a str>> {
    let set = wanted
        .iter()
        .filter(|(key, value)| present.get(*key) != Some(value))
        .map(|(key, value)| (key.as_str(), Some(value.as_str())));
    let gone = ours
        .iter()
        .filter(|key| present.contains_key(*key) && !wanted.contains_key(*key))
        .map(|key| (key.as_str(), None));
    set.chain(gone).collect()
}

/// Builds a merge patch for exactly this version of the namespace, because the ownership was read
/// from it.
fn patch(
    seen: &Namespace,
    labels: &BTreeMap<&str, Option<&str>>,
    annotations: &BTreeMap<&str, Option<&str>>,
) -> Option<Value> {
    if labels.is_empty() && annotations.is_empty() {
        return None;
    }
    Some(json!({ "metadata": {
        "uid": seen.uid(),
        "resourceVersion": seen.resource_version(),
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
            for (key, wanted) in patch["metadata"][field].as_object().unwrap() {
                let map = value["metadata"][field].as_object_mut().unwrap();
                map.remove(key);
                if !wanted.is_null() {
                    map.insert(key.clone(), wanted.clone());
                }
            }
        }
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_was_just_made_needs_no_repair() {
        let object = object(json!({"labels": {"team": "blue"}, "annotations": {"a": "1"}}));
        let me = Identity::of(&object);
        assert_eq!(repair(&object, &me, &new(&object, &me)), None);
    }

    #[test]
    fn keys_that_the_spec_drops_are_taken_off_and_those_of_others_stay() {
        let before = object(json!({"labels": {"team": "blue", "tier": "1"}, "annotations": {"a": "1"}}));
        let after = object(json!({"labels": {"team": "red"}}));
        let me = Identity::of(&before);
        let mut namespace = new(&before, &me);
        namespace.labels_mut().insert("theirs".into(), "x".into());
        let patch = repair(&after, &me, &namespace).unwrap();
        assert_eq!(patch["metadata"]["labels"], json!({"team": "red", "tier": null}));
        assert_eq!(
            patch["metadata"]["annotations"],
            json!({"a": null, MANAGED_KEY: r#"{"labels":["team"]}"#})
        );
        let namespace = patched(&namespace, &patch);
        assert_eq!(namespace.labels()["theirs"], "x");
        assert_eq!(repair(&after, &me, &namespace), None);
    }

    #[test]
    fn a_patch_is_for_the_version_that_was_seen() {
        let object = object(json!({"labels": {"team": "blue"}}));
        let mut namespace = Namespace::default();
        namespace.metadata.resource_version = Some("7".into());
        namespace.metadata.uid = Some("u".into());
        let patch = repair(&object, &Identity::of(&object), &namespace).unwrap();
        assert_eq!(
            (&patch["metadata"]["resourceVersion"], &patch["metadata"]["uid"]),
            (&json!("7"), &json!("u"))
        );
    }

    #[test]
    fn release_takes_off_the_marks_and_nothing_else() {
        let object = object(json!({"labels": {"team": "blue"}, "annotations": {"a": "1"}}));
        let namespace = new(&object, &Identity::of(&object));
        let released = patched(&namespace, &release(&namespace).unwrap());
        assert_eq!(released.labels().iter().collect::<Vec<_>>(), [(&"team".to_owned(), &"blue".to_owned())]);
        assert_eq!(released.annotations().iter().collect::<Vec<_>>(), [(&"a".to_owned(), &"1".to_owned())]);
        assert_eq!(release(&released), None);
    }

    #[test]
    fn a_label_of_the_same_key_that_somebody_else_gave_is_not_taken_off() {
        let mut namespace = Namespace::default();
        namespace.labels_mut().insert("app.kubernetes.io/managed-by".into(), "Helm".into());
        assert_eq!(release(&namespace), None);
    }
}
