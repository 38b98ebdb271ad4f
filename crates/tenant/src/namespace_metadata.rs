//! Labels and annotations that a Tenant applies to its namespaces.

use std::collections::BTreeMap;

use capsule::api::{
    names::{
        INGRESS_CLASSES_ANNOTATION, NAMESPACE_NAME_LABEL, NODE_SELECTOR_ANNOTATION, REGEXP_SUFFIX,
        REGISTRIES_ANNOTATION, RESERVED_LABELS, STORAGE_CLASSES_ANNOTATION, TENANT_LABEL,
        is_reserved_annotation,
    },
    v1beta2::{Metadata, NamespaceOptions, SelectedMetadata, TenantSpec},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{Selector, SelectorExt};
use operator_core::template::render;
use serde_json::{Map, Value, json};

use crate::policies::labels::policy_labels;

/// Labels or annotations by key.
type Entries = BTreeMap<String, String>;

/// Labels that identify a namespace and its Tenant. A spec cannot change them.
const RESERVED: [&str; 2] = [TENANT_LABEL, NAMESPACE_NAME_LABEL];

/// Prefixes of the keys that Kubernetes and kubectl set.
const SYSTEM_PREFIXES: [&str; 2] = ["kubernetes.io/", "kubectl.kubernetes.io/"];

/// Error in an entry of `additionalMetadataList`, which is skipped.
#[derive(Debug, thiserror::Error)]
#[error("spec.namespaceOptions.additionalMetadataList[{index}].namespaceSelector cannot be used")]
pub struct MetadataError {
    /// Index of the entry.
    pub index: usize,
    /// Error in its selector.
    pub source: kube::core::ParseExpressionError,
}

/// Returns the labels and annotations that a Tenant applies to a namespace, and the invalid
/// entries.
///
/// If several sources set a key, the first source takes precedence:
/// 1. the labels that select webhooks, the node selector, and the lists of classes and registries
/// 2. `additionalMetadata`
/// 3. the entries of `additionalMetadataList` in their order
///
/// `labels` are the labels that the controller did not apply. A selector matches them and the
/// labels of earlier sources, so the result does not depend on what was applied before.
pub fn desired_metadata(
    tenant: &str,
    spec: &TenantSpec,
    name: &str,
    labels: &Entries,
) -> (Metadata, Vec<MetadataError>) {
    let mut metadata = Metadata { labels: policy_labels(spec), annotations: annotations(spec) };
    let mut errors = Vec::new();
    if let Some(options) = &spec.namespace_options {
        let render = |value: &str| render_template(value, tenant, name);
        add_options(&mut metadata, &mut errors, options, labels, render);
    }
    metadata.labels.retain(|key, _| !RESERVED.contains(&key.as_str()));
    (metadata, errors)
}

/// Returns the labels and annotations of a namespace that `managedMetadataOnly` removes: those that
/// the Tenant does not set. Reserved keys, and those of Kubernetes and kubectl, stay.
pub(crate) fn foreign_metadata(spec: &TenantSpec, present: &ObjectMeta, desired: &Metadata) -> Metadata {
    if !spec.namespace_options.as_ref().is_some_and(|options| options.managed_metadata_only) {
        return Metadata::default();
    }
    let foreign = |present: Option<&Entries>, desired: &Entries, is_reserved: fn(&str) -> bool| {
        let all = present.into_iter().flatten();
        let foreign = all.filter(|(key, _)| {
            !desired.contains_key(*key)
                && !is_reserved(key)
                && !SYSTEM_PREFIXES.iter().any(|one| key.starts_with(one))
        });
        foreign.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    Metadata {
        labels: foreign(present.labels.as_ref(), &desired.labels, |key| RESERVED_LABELS.contains(&key)),
        annotations: foreign(present.annotations.as_ref(), &desired.annotations, is_reserved_annotation),
    }
}

fn add_options(
    metadata: &mut Metadata,
    errors: &mut Vec<MetadataError>,
    options: &NamespaceOptions,
    labels: &Entries,
    render: impl Fn(&str) -> String,
) {
    if let Some(additional) = &options.additional_metadata {
        add(&mut metadata.labels, &additional.labels, str::to_owned);
        add(&mut metadata.annotations, &additional.annotations, str::to_owned);
    }
    for (index, entry) in options.additional_metadata_list.iter().enumerate() {
        let visible = metadata.labels.iter().chain(labels).map(|(key, value)| (key.clone(), value.clone()));
        match selects(entry, &visible.collect()) {
            Ok(false) => {}
            Ok(true) => {
                add(&mut metadata.labels, &entry.labels, &render);
                add(&mut metadata.annotations, &entry.annotations, &render);
            }
            Err(source) => errors.push(MetadataError { index, source }),
        }
    }
}

fn selects(entry: &SelectedMetadata, labels: &Entries) -> Result<bool, kube::core::ParseExpressionError> {
    let Some(selector) = entry.namespace_selector.clone() else { return Ok(true) };
    Selector::try_from(selector).map(|selector: Selector| selector.matches(labels))
}

fn add(entries: &mut Entries, more: &Entries, render: impl Fn(&str) -> String) {
    for (key, value) in more {
        entries.entry(render(key)).or_insert_with(|| render(value));
    }
}

/// Replaces `{{tenant.name}}` and `{{namespace}}` with the names.
pub(crate) fn render_template(value: &str, tenant: &str, namespace: &str) -> String {
    render(value, |key| match key {
        "tenant.name" => Some(tenant.to_owned()),
        "namespace" => Some(namespace.to_owned()),
        _ => None,
    })
}

/// Returns the annotations that are derived from other fields of the spec.
fn annotations(spec: &TenantSpec) -> Entries {
    let mut annotations = Entries::new();
    if !spec.node_selector.is_empty() {
        annotations.insert(NODE_SELECTOR_ANNOTATION.to_owned(), node_selector(&spec.node_selector));
    }
    let ingress = spec.ingress_options.as_ref().and_then(|options| options.allowed_classes.as_ref());
    let storage = spec.storage_classes.as_ref();
    let registries = spec.container_registries.as_ref();
    if let Some(list) = ingress {
        let pattern = list.allowed_regex.as_deref();
        add_allowed_list(&mut annotations, INGRESS_CLASSES_ANNOTATION, &list.allowed, pattern);
    }
    if let Some(list) = storage {
        let pattern = list.allowed_regex.as_deref();
        add_allowed_list(&mut annotations, STORAGE_CLASSES_ANNOTATION, &list.allowed, pattern);
    }
    if let Some(list) = registries {
        let pattern = list.allowed_regex.as_deref();
        add_allowed_list(&mut annotations, REGISTRIES_ANNOTATION, &list.allowed, pattern);
    }
    annotations
}

fn add_allowed_list(annotations: &mut Entries, key: &str, allowed: &[String], pattern: Option<&str>) {
    if !allowed.is_empty() {
        annotations.insert(key.to_owned(), allowed.join(","));
    }
    if let Some(pattern) = pattern.filter(|pattern| !pattern.is_empty()) {
        annotations.insert(format!("{key}{REGEXP_SUFFIX}"), pattern.to_owned());
    }
}

/// Returns the pairs `key=value`, sorted as whole strings as Capsule does.
fn node_selector(labels: &Entries) -> String {
    let mut pairs: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    pairs.sort();
    pairs.join(",")
}

/// Returns the merge patch that applies the `desired` metadata, or `None` if nothing changes.
///
/// The patch removes keys of `last_applied` that are not desired. Other keys stay. It contains the
/// UID, so it never changes another namespace of the same name.
pub fn patch(present: &ObjectMeta, desired: &Metadata, last_applied: &Metadata) -> Option<Value> {
    let labels = changes(present.labels.as_ref(), &desired.labels, &last_applied.labels);
    let annotations = changes(present.annotations.as_ref(), &desired.annotations, &last_applied.annotations);
    let mut metadata = Map::new();
    for (field, changes) in [("labels", labels), ("annotations", annotations)] {
        if !changes.is_empty() {
            metadata.insert(field.to_owned(), Value::Object(changes));
        }
    }
    if metadata.is_empty() {
        return None;
    }
    if let Some(uid) = &present.uid {
        metadata.insert("uid".to_owned(), Value::String(uid.clone()));
    }
    Some(json!({ "metadata": metadata }))
}

fn changes(present: Option<&Entries>, desired: &Entries, last_applied: &Entries) -> Map<String, Value> {
    let value = |key: &String| present.and_then(|present| present.get(key));
    let set = desired
        .iter()
        .filter(|(key, desired)| value(key) != Some(desired))
        .map(|(key, desired)| (key.clone(), Value::String(desired.clone())));
    let removed = last_applied
        .keys()
        .filter(|key| !desired.contains_key(*key) && value(key).is_some())
        .filter(|key| !RESERVED.contains(&key.as_str()))
        .map(|key| (key.clone(), Value::Null));
    set.chain(removed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managed_metadata_only_removes_what_the_tenant_does_not_set() {
        let present: ObjectMeta = serde_json::from_value(json!({
            "labels": {
                "team": "oil", "own": "x", "kubernetes.io/metadata.name": "a", "capsule.clastix.io/tenant": "oil",
                "projectcapsule.dev/cordoned": "true", "pod-security.kubernetes.io/enforce": "privileged",
            },
            "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "x" },
        }))
        .unwrap();
        let desired = Metadata { labels: entries([("team", "oil")]), annotations: Entries::new() };
        let foreign = |only: bool| {
            let spec = spec(json!({ "namespaceOptions": { "managedMetadataOnly": only } }));
            foreign_metadata(&spec, &present, &desired)
        };
        assert_eq!(foreign(false), Metadata::default());
        let found = foreign(true);
        assert_eq!(
            found.labels.into_keys().collect::<Vec<_>>(),
            ["own", "pod-security.kubernetes.io/enforce"]
        );
        assert_eq!(found.annotations.into_keys().collect::<Vec<_>>(), ["note"]);
    }

    fn spec(value: Value) -> TenantSpec {
        serde_json::from_value(value).unwrap()
    }

    fn entries<const N: usize>(pairs: [(&str, &str); N]) -> Entries {
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }

    fn metadata_of(value: Value) -> Metadata {
        let (metadata, errors) = desired_metadata("oil", &spec(value), "oil-dev", &entries([("env", "dev")]));
        assert!(errors.is_empty());
        metadata
    }

    #[test]
    fn empty_spec_applies_no_metadata() {
        assert_eq!(metadata_of(json!({})), Metadata::default());
    }

    #[test]
    fn node_selector_annotation_is_sorted_by_whole_pairs() {
        let metadata = metadata_of(
            json!({ "nodeSelector": { "pool": "oil", "pool-b": "x", "kubernetes.io/os": "linux" } }),
        );
        assert_eq!(
            metadata.annotations["scheduler.alpha.kubernetes.io/node-selector"],
            "kubernetes.io/os=linux,pool-b=x,pool=oil"
        );
    }

    #[test]
    fn annotations_list_allowed_classes_and_registries() {
        let metadata = metadata_of(json!({
            "ingressOptions": { "allowedClasses": { "allowed": ["default", "nginx"], "allowedRegex": "^oil-.*$" } },
            "storageClasses": { "allowed": ["default"] },
            "containerRegistries": { "allowedRegex": "quay" },
        }));
        let expected = entries([
            ("capsule.clastix.io/allowed-registries-regexp", "quay"),
            ("capsule.clastix.io/ingress-classes", "default,nginx"),
            ("capsule.clastix.io/ingress-classes-regexp", "^oil-.*$"),
            ("capsule.clastix.io/storage-classes", "default"),
        ]);
        assert_eq!(metadata.annotations, expected);
    }

    #[test]
    fn list_entry_renders_templates_and_overrides_no_earlier_entry() {
        let metadata = metadata_of(json!({ "namespaceOptions": {
            "additionalMetadata": { "labels": { "team": "{{tenant.name}}" } },
            "additionalMetadataList": [
                { "namespaceSelector": { "matchLabels": { "env": "dev" } },
                  "labels": { "team": "other", "of": "{{ tenant.name }}-{{namespace}}" } },
                { "namespaceSelector": { "matchLabels": { "env": "prod" } }, "labels": { "never": "there" } },
                { "labels": { "of": "later" }, "annotations": { "note": "{{other}} {{" } },
                { "labels": { "{{tenant.name}}.example.com/{{ namespace }}": "x" } },
            ],
        } }));
        let expected = [("of", "oil-oil-dev"), ("oil.example.com/oil-dev", "x"), ("team", "{{tenant.name}}")];
        assert_eq!(metadata.labels, entries(expected));
        assert_eq!(metadata.annotations, entries([("note", "{{other}} {{")]));
    }

    #[test]
    fn reserved_labels_cannot_be_set() {
        let metadata = metadata_of(json!({ "namespaceOptions": { "additionalMetadata": { "labels": {
            "capsule.clastix.io/tenant": "gas", "kubernetes.io/metadata.name": "default",
        } } } }));
        assert!(metadata.labels.is_empty());
    }

    #[test]
    fn invalid_selector_skips_only_its_own_entry() {
        let spec = spec(json!({ "namespaceOptions": { "additionalMetadataList": [
            { "namespaceSelector": { "matchExpressions": [{ "key": "env", "operator": "Like" }] }, "labels": { "a": "b" } },
            { "labels": { "c": "d" } },
        ] } }));
        let (metadata, errors) = desired_metadata("oil", &spec, "oil-dev", &Entries::new());
        assert_eq!(metadata.labels, entries([("c", "d")]));
        assert_eq!(errors.len(), 1);
        assert!(errors[0].to_string().contains("additionalMetadataList[0]"));
    }

    #[test]
    fn patch_contains_only_changes() {
        let desired = Metadata { labels: entries([("a", "1"), ("b", "2")]), annotations: Entries::new() };
        let last_applied = Metadata {
            labels: entries([("old", "x"), ("changed", "x"), ("gone", "x")]),
            ..Metadata::default()
        };
        let present = ObjectMeta {
            labels: Some(entries([("a", "1"), ("old", "x"), ("changed", "y"), ("user", "y")])),
            ..ObjectMeta::default()
        };
        assert_eq!(
            patch(&present, &desired, &last_applied),
            Some(json!({ "metadata": { "labels": { "b": "2", "old": null, "changed": null } } }))
        );
        let after = ObjectMeta {
            labels: Some(entries([("a", "1"), ("b", "2"), ("user", "y")])),
            ..ObjectMeta::default()
        };
        assert_eq!(patch(&after, &desired, &desired), None);
    }

    #[test]
    fn tenant_label_is_never_removed() {
        let last_applied = Metadata { labels: entries([(TENANT_LABEL, "oil")]), ..Metadata::default() };
        let present = ObjectMeta { labels: Some(last_applied.labels.clone()), ..ObjectMeta::default() };
        assert_eq!(patch(&present, &Metadata::default(), &last_applied), None);
    }
}
