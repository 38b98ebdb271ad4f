//! Forbidden and required labels and annotations of namespaces. Pure.

use std::collections::BTreeMap;

use capsule::{
    api::{
        names::{NAMESPACE_NAME_LABEL, TENANT_LABEL},
        v1beta2::{ForbiddenList, NamespaceOptions, Tenant},
    },
    name_filter::NameFilter,
    pattern,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use operator_core::admission::Denial;

use super::metadata::desired;

type Entries = BTreeMap<String, String>;

/// Labels or annotations, before and after a request.
struct Change {
    field: &'static str,
    old: Entries,
    new: Entries,
}

impl Change {
    fn labels(old: Option<&ObjectMeta>, new: &ObjectMeta) -> Self {
        let of = |metadata: &ObjectMeta| metadata.labels.clone().unwrap_or_default();
        Self { field: "label", old: old.map(of).unwrap_or_default(), new: of(new) }
    }

    fn annotations(old: Option<&ObjectMeta>, new: &ObjectMeta) -> Self {
        let of = |metadata: &ObjectMeta| metadata.annotations.clone().unwrap_or_default();
        Self { field: "annotation", old: old.map(of).unwrap_or_default(), new: of(new) }
    }

    /// Returns the entries that the request adds or changes.
    fn set(&self) -> impl Iterator<Item = (&String, &String)> {
        self.new.iter().filter(|(key, value)| self.old.get(*key) != Some(value))
    }
}

/// Checks that an owner sets no forbidden key. Removing one is free, and so is the value that the
/// Tenant itself sets. Annotations come first, as in Capsule.
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
    let own = desired(tenant, new);
    let name = new.name.as_deref().unwrap_or_default();
    let check = |change: Change, list: &Option<ForbiddenList>, own: &Entries| {
        let Some(filter) = list.as_ref().map(NameFilter::from) else { return Ok(()) };
        let is_own = |key: &String, value: &String| {
            own.get(key) == Some(value) || [TENANT_LABEL, NAMESPACE_NAME_LABEL].contains(&key.as_str())
        };
        let mut forbidden = change.set().filter(|(key, value)| !is_own(key, value));
        forbidden.find(|(key, _)| filter.matches(key)).map_or(Ok(()), |(key, _)| {
            Err(Denial::forbidden(format!(
                "namespace {name}: the {} {key} is forbidden by Tenant {}; remove it; forbidden: {filter}",
                change.field,
                tenant.name_any()
            )))
        })
    };
    check(Change::annotations(old, new), forbidden_annotations, &own.annotations)?;
    check(Change::labels(old, new), forbidden_labels, &own.labels)
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
    let name = new.name.as_deref().unwrap_or_default();
    let check = |change: Change, required: &Entries| {
        let changed =
            required.iter().filter(|(key, _)| old.is_none() || change.old.get(*key) != change.new.get(*key));
        for (key, expression) in changed {
            let value = change.new.get(key);
            if !value.is_some_and(|value| matches(expression, value)) {
                let cause =
                    value.map_or_else(|| "is missing".to_owned(), |value| format!("has the value {value:?}"));
                return Err(Denial::forbidden(format!(
                    "namespace {name}: the {} {key} {cause}; Tenant {} requires a value that matches {expression:?}",
                    change.field,
                    tenant.name_any()
                )));
            }
        }
        Ok(())
    };
    check(Change::labels(old, new), &required.labels)?;
    check(Change::annotations(old, new), &required.annotations)
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
