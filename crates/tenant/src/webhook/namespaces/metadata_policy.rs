//! Forbidden and required labels and annotations of namespaces. Pure.

use std::collections::BTreeMap;

use capsule::{
    api::{
        names::{NAMESPACE_NAME_LABEL, TENANT_LABEL},
        v1beta2::{ForbiddenList, Metadata, NamespaceOptions, Tenant},
    },
    name_filter::NameFilter,
    pattern,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use operator_core::admission::Denial;

use super::metadata::desired;
use crate::policies::keys::forbidden_key;

type Entries = BTreeMap<String, String>;

/// Checks that an owner sets no forbidden key. Annotations come first, as in Capsule.
pub(super) fn check_forbidden(
    tenant: &Tenant,
    old: Option<&ObjectMeta>,
    new: &ObjectMeta,
) -> Result<(), Denial> {
    let Some(options) = &tenant.spec.namespace_options else { return Ok(()) };
    let NamespaceOptions { forbidden_labels, forbidden_annotations, .. } = options;
    if [forbidden_labels, forbidden_annotations].into_iter().flatten().all(ForbiddenList::is_empty) {
        return Ok(());
    }
    let own = with_system_labels(desired(tenant, new), new);
    for (field, list, of, own) in [
        ("annotation", forbidden_annotations, annotations as Field, &own.annotations),
        ("label", forbidden_labels, labels, &own.labels),
    ] {
        let Some(filter) = list.as_ref().map(NameFilter::from) else { continue };
        if let Some(key) = forbidden_key(&filter, old.and_then(of), of(new), own) {
            return Err(Denial::forbidden(format!(
                "namespace {}: the {field} {key} is forbidden by Tenant {}; remove it; forbidden: {filter}",
                new.name.as_deref().unwrap_or_default(),
                tenant.name_any()
            )));
        }
    }
    Ok(())
}

/// Returns the metadata that the Tenant sets, with the labels of the namespace that the API server
/// and the manager set on every namespace of a Tenant.
fn with_system_labels(mut own: Metadata, namespace: &ObjectMeta) -> Metadata {
    for key in [TENANT_LABEL, NAMESPACE_NAME_LABEL] {
        if let Some(value) = labels(namespace).and_then(|labels| labels.get(key)) {
            own.labels.insert(key.to_owned(), value.clone());
        }
    }
    own
}

/// Checks that a namespace has the required keys with values that match their patterns. A new
/// namespace needs all of them; an update is checked only for the keys that it changes.
pub(super) fn check_required(
    tenant: &Tenant,
    old: Option<&ObjectMeta>,
    new: &ObjectMeta,
) -> Result<(), Denial> {
    let options = tenant.spec.namespace_options.as_ref();
    let Some(required) = options.and_then(|options| options.required_metadata.as_ref()) else {
        return Ok(());
    };
    let both =
        [("label", labels as Field, &required.labels), ("annotation", annotations, &required.annotations)];
    let required = both.into_iter().flat_map(|(field, of, required)| {
        required.iter().map(move |(key, expression)| (field, of, key, expression))
    });
    for (field, of, key, expression) in required {
        let value = of(new).and_then(|new| new.get(key));
        let is_unchanged = old.is_some_and(|old| of(old).and_then(|old| old.get(key)) == value);
        if is_unchanged || value.is_some_and(|value| matches(expression, value)) {
            continue;
        }
        let cause = value.map_or_else(|| "is missing".to_owned(), |value| format!("has the value {value:?}"));
        return Err(Denial::forbidden(format!(
            "namespace {}: the {field} {key} {cause}; Tenant {} requires a value that matches {expression:?}",
            new.name.as_deref().unwrap_or_default(),
            tenant.name_any()
        )));
    }
    Ok(())
}

/// Labels or annotations of a namespace.
type Field = fn(&ObjectMeta) -> Option<&Entries>;

fn labels(metadata: &ObjectMeta) -> Option<&Entries> {
    metadata.labels.as_ref()
}

fn annotations(metadata: &ObjectMeta) -> Option<&Entries> {
    metadata.annotations.as_ref()
}

/// Returns whether a value matches. An empty pattern matches every value. A pattern that admission
/// would reject matches none.
fn matches(expression: &str, value: &str) -> bool {
    pattern::compile(expression).is_ok_and(|pattern| pattern.is_none_or(|pattern| pattern.is_match(value)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn tenant(options: Value) -> Tenant {
        serde_json::from_value(
            json!({ "metadata": { "name": "oil" }, "spec": { "namespaceOptions": options } }),
        )
        .unwrap()
    }

    fn metadata(mut value: Value) -> ObjectMeta {
        value["name"] = "oil-dev".into();
        serde_json::from_value(value).unwrap()
    }

    fn message(checked: Result<(), Denial>) -> String {
        checked.err().map_or_else(String::new, |denial| denial.message)
    }

    #[test]
    fn forbidden_keys_cannot_be_added_or_changed() {
        let tenant = tenant(json!({
            "forbiddenLabels": { "denied": ["a"], "deniedRegex": "^x-" }, "forbiddenAnnotations": { "deniedRegex": ".*" },
            "additionalMetadata": { "labels": { "a": "own" }, "annotations": { "note": "own" } },
        }));
        let check = |old: Option<Value>, new: Value| {
            message(check_forbidden(&tenant, old.map(metadata).as_ref(), &metadata(new)))
        };
        let label = |key: &str, value: &str| json!({ "labels": { key: value } });
        for key in ["a", "x-y"] {
            let denied = check(None, label(key, "1"));
            assert!(
                denied.starts_with(&format!("namespace oil-dev: the label {key} is forbidden")),
                "{denied}"
            );
            assert!(!check(Some(label(key, "1")), label(key, "2")).is_empty());
            assert_eq!(check(Some(label(key, "1")), label(key, "1")), "");
            assert_eq!(check(Some(label(key, "1")), json!({})), "");
        }
        assert_eq!(check(None, label("a", "own")), "");
        assert_eq!(check(None, json!({ "annotations": { "note": "own" } })), "");
        let both = json!({ "labels": { "a": "1" }, "annotations": { "b": "1" } });
        assert!(check(None, both).contains("annotation b"), "annotations come first");
        let system = json!({ "labels": { "kubernetes.io/metadata.name": "oil-dev", TENANT_LABEL: "oil" } });
        assert_eq!(check(None, system), "");
    }

    #[test]
    fn required_keys_must_match_when_they_are_set() {
        let tenant = tenant(json!({ "requiredMetadata": {
            "labels": { "env": "^(prod|dev)$" }, "annotations": { "cost": "" },
        } }));
        let check = |old: Option<Value>, new: Value| {
            message(check_required(&tenant, old.map(metadata).as_ref(), &metadata(new)))
        };
        let with = |env: &str| json!({ "labels": { "env": env }, "annotations": { "cost": "1" } });
        assert_eq!(check(None, with("prod")), "");
        assert!(check(None, with("production")).contains("label env has the value \"production\""));
        assert!(check(None, json!({ "labels": { "env": "dev" } })).contains("annotation cost is missing"));
        assert!(check(Some(with("prod")), json!({})).contains("label env is missing"));
        assert_eq!(check(Some(json!({})), json!({ "labels": { "other": "x" } })), "");
        assert_eq!(
            check(Some(json!({ "labels": { "env": "old" } })), json!({ "labels": { "env": "old" } })),
            ""
        );
    }
}
