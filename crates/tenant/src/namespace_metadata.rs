//! What a Tenant writes on its namespaces.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{Selector, SelectorExt};
use operator_core::template::render;
use serde_json::{Map, Value, json};

use crate::api::{
    names::{
        INGRESS_CLASSES_ANNOTATION, NAMESPACE_NAME_LABEL, NODE_SELECTOR_ANNOTATION, REGEXP_SUFFIX,
        REGISTRIES_ANNOTATION, STORAGE_CLASSES_ANNOTATION, TENANT_LABEL,
    },
    v1beta2::{Metadata, NamespaceOptions, SelectedMetadata, TenantSpec},
};

/// Labels and annotations by key.
type Entries = BTreeMap<String, String>;

/// Labels that say what a namespace is and to whom it belongs. Nothing in a spec changes them.
const RESERVED: [&str; 2] = [TENANT_LABEL, NAMESPACE_NAME_LABEL];

/// Why an entry of `additionalMetadataList` was left out.
#[derive(Debug, thiserror::Error)]
#[error("spec.namespaceOptions.additionalMetadataList[{index}].namespaceSelector cannot be used")]
pub struct MetadataError {
    /// The entry.
    pub index: usize,
    /// What is wrong with its selector.
    pub source: kube::core::ParseExpressionError,
}

/// The labels and annotations that a namespace is to have, as far as its Tenant says, and the entries that
/// had to be left out.
///
/// Of two sources for one key the first counts: the node selector and the lists of classes and registries,
/// then `additionalMetadata`, then the entries of `additionalMetadataList` in their order. `labels` are those
/// that others put on the namespace; a selector sees them and what earlier sources add, so that the result
/// does not depend on what was written before.
pub fn wanted(
    tenant: &str,
    spec: &TenantSpec,
    name: &str,
    labels: &Entries,
) -> (Metadata, Vec<MetadataError>) {
    let mut metadata = Metadata { labels: Entries::new(), annotations: annotations(spec) };
    let mut errors = Vec::new();
    if let Some(options) = &spec.namespace_options {
        add_options(&mut metadata, &mut errors, options, labels, |value| filled_in(value, tenant, name));
    }
    metadata.labels.retain(|key, _| !RESERVED.contains(&key.as_str()));
    (metadata, errors)
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
        let seen = metadata.labels.iter().chain(labels).map(|(key, value)| (key.clone(), value.clone()));
        match picks(entry, &seen.collect()) {
            Ok(false) => {}
            Ok(true) => {
                add(&mut metadata.labels, &entry.labels, &render);
                add(&mut metadata.annotations, &entry.annotations, &render);
            }
            Err(source) => errors.push(MetadataError { index, source }),
        }
    }
}

fn picks(entry: &SelectedMetadata, labels: &Entries) -> Result<bool, kube::core::ParseExpressionError> {
    let Some(selector) = entry.namespace_selector.clone() else { return Ok(true) };
    Selector::try_from(selector).map(|selector: Selector| selector.matches(labels))
}

fn add(entries: &mut Entries, more: &Entries, render: impl Fn(&str) -> String) {
    for (key, value) in more {
        entries.entry(render(key)).or_insert_with(|| render(value));
    }
}

/// Puts the names in the place of `{{tenant.name}}` and `{{namespace}}`.
pub(crate) fn filled_in(value: &str, tenant: &str, namespace: &str) -> String {
    render(value, |key| match key {
        "tenant.name" => Some(tenant.to_owned()),
        "namespace" => Some(namespace.to_owned()),
        _ => None,
    })
}

/// The annotations that follow from other parts of the spec.
fn annotations(spec: &TenantSpec) -> Entries {
    let mut annotations = Entries::new();
    if !spec.node_selector.is_empty() {
        annotations.insert(NODE_SELECTOR_ANNOTATION.to_owned(), node_selector(&spec.node_selector));
    }
    let ingress = spec.ingress_options.as_ref().and_then(|options| options.allowed_classes.as_ref());
    if let Some(list) = ingress {
        announce(&mut annotations, INGRESS_CLASSES_ANNOTATION, &list.allowed, list.allowed_regex.as_deref());
    }
    if let Some(list) = &spec.storage_classes {
        announce(&mut annotations, STORAGE_CLASSES_ANNOTATION, &list.allowed, list.allowed_regex.as_deref());
    }
    if let Some(list) = &spec.container_registries {
        announce(&mut annotations, REGISTRIES_ANNOTATION, &list.allowed, list.allowed_regex.as_deref());
    }
    annotations
}

fn announce(annotations: &mut Entries, key: &str, allowed: &[String], pattern: Option<&str>) {
    if !allowed.is_empty() {
        annotations.insert(key.to_owned(), allowed.join(","));
    }
    if let Some(pattern) = pattern.filter(|pattern| !pattern.is_empty()) {
        annotations.insert(format!("{key}{REGEXP_SUFFIX}"), pattern.to_owned());
    }
}

/// The pairs `key=value`, sorted as whole texts, which the contract asks for.
fn node_selector(labels: &Entries) -> String {
    let mut pairs: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    pairs.sort();
    pairs.join(",")
}

/// The merge patch that brings a namespace to what is `wanted`, or nothing if it is there already.
///
/// The patch has the UID, so that it never hits a namesake.
///
/// The keys that were put there earlier, as `remembered`, and are no longer wanted are taken away. Everything
/// else on the namespace stays.
pub fn patch(present: &ObjectMeta, wanted: &Metadata, remembered: &Metadata) -> Option<Value> {
    let labels = changes(present.labels.as_ref(), &wanted.labels, &remembered.labels);
    let annotations = changes(present.annotations.as_ref(), &wanted.annotations, &remembered.annotations);
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

fn changes(present: Option<&Entries>, wanted: &Entries, remembered: &Entries) -> Map<String, Value> {
    let value = |key: &String| present.and_then(|present| present.get(key));
    let set = wanted
        .iter()
        .filter(|(key, wanted)| value(key) != Some(wanted))
        .map(|(key, wanted)| (key.clone(), Value::String(wanted.clone())));
    let removed = remembered
        .keys()
        .filter(|key| !wanted.contains_key(*key) && value(key).is_some())
        .filter(|key| !RESERVED.contains(&key.as_str()))
        .map(|key| (key.clone(), Value::Null));
    set.chain(removed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(value: Value) -> TenantSpec {
        serde_json::from_value(value).unwrap()
    }

    fn entries<const N: usize>(pairs: [(&str, &str); N]) -> Entries {
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }

    fn of(value: Value) -> Metadata {
        let (metadata, errors) = wanted("oil", &spec(value), "oil-dev", &entries([("env", "dev")]));
        assert!(errors.is_empty());
        metadata
    }

    #[test]
    fn an_empty_spec_writes_nothing() {
        assert_eq!(of(json!({})), Metadata::default());
    }

    #[test]
    fn the_node_selector_is_sorted_by_whole_pairs() {
        let metadata =
            of(json!({ "nodeSelector": { "pool": "oil", "pool-b": "x", "kubernetes.io/os": "linux" } }));
        assert_eq!(
            metadata.annotations["scheduler.alpha.kubernetes.io/node-selector"],
            "kubernetes.io/os=linux,pool-b=x,pool=oil"
        );
    }

    #[test]
    fn allowed_classes_and_registries_are_announced() {
        let metadata = of(json!({
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
    fn an_entry_of_the_list_fills_in_names_and_overwrites_nothing() {
        let metadata = of(json!({ "namespaceOptions": {
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
    fn what_says_whose_a_namespace_is_cannot_be_changed() {
        let metadata = of(json!({ "namespaceOptions": { "additionalMetadata": { "labels": {
            "capsule.clastix.io/tenant": "gas", "kubernetes.io/metadata.name": "default",
        } } } }));
        assert!(metadata.labels.is_empty());
    }

    #[test]
    fn a_selector_that_cannot_be_used_leaves_out_its_entry_alone() {
        let spec = spec(json!({ "namespaceOptions": { "additionalMetadataList": [
            { "namespaceSelector": { "matchExpressions": [{ "key": "env", "operator": "Like" }] }, "labels": { "a": "b" } },
            { "labels": { "c": "d" } },
        ] } }));
        let (metadata, errors) = wanted("oil", &spec, "oil-dev", &Entries::new());
        assert_eq!(metadata.labels, entries([("c", "d")]));
        assert_eq!(errors.len(), 1);
        assert!(errors[0].to_string().contains("additionalMetadataList[0]"));
    }

    #[test]
    fn a_patch_has_only_what_differs() {
        let wanted = Metadata { labels: entries([("a", "1"), ("b", "2")]), annotations: Entries::new() };
        let remembered = Metadata {
            labels: entries([("old", "x"), ("changed", "x"), ("gone", "x")]),
            ..Metadata::default()
        };
        let present = ObjectMeta {
            labels: Some(entries([("a", "1"), ("old", "x"), ("changed", "y"), ("theirs", "y")])),
            ..ObjectMeta::default()
        };
        assert_eq!(
            patch(&present, &wanted, &remembered),
            Some(json!({ "metadata": { "labels": { "b": "2", "old": null, "changed": null } } }))
        );
        let after = ObjectMeta {
            labels: Some(entries([("a", "1"), ("b", "2"), ("theirs", "y")])),
            ..ObjectMeta::default()
        };
        assert_eq!(patch(&after, &wanted, &wanted), None);
    }

    #[test]
    fn membership_is_never_taken_away() {
        let remembered = Metadata { labels: entries([(TENANT_LABEL, "oil")]), ..Metadata::default() };
        let present = ObjectMeta { labels: Some(remembered.labels.clone()), ..ObjectMeta::default() };
        assert_eq!(patch(&present, &Metadata::default(), &remembered), None);
    }
}
