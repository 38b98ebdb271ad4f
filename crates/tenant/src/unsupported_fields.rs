//! Fields that a spec can set and that this version does not enforce. A condition lists them.

use capsule::api::v1beta2::{OwnerSpec, ProxyKind, ProxyOperation, TenantSpec};
use operator_core::conditions::NewCondition;
use serde_json::Value;

use crate::{
    condition_types::FIELDS_ENFORCED,
    reasons::{ENFORCED, NOT_ENFORCED},
};

/// Returns the condition for the fields that are set and not enforced.
pub(crate) fn condition(fields: &[&'static str]) -> NewCondition {
    if fields.is_empty() {
        return NewCondition::is_true(FIELDS_ENFORCED, ENFORCED, "every field that is set is enforced");
    }
    let message = format!("these fields are set and not enforced by this version: {}", fields.join(", "));
    NewCondition::is_false(FIELDS_ENFORCED, NOT_ENFORCED, message)
}

/// Returns the paths of the fields that are set and not enforced.
///
/// A field counts as set if it restricts something.
pub fn fields(spec: &TenantSpec) -> Vec<&'static str> {
    let fields = [
        ("spec.owners[].proxySettings", spec.owners.iter().any(uses_proxy)),
        ("spec.rules", spec.rules.iter().any(has_effect)),
    ];
    fields.into_iter().filter_map(|(path, set)| set.then_some(path)).collect()
}

/// Returns whether a value is null, false, or empty, or contains only such values.
pub(crate) fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.iter().all(is_blank),
        Value::Object(fields) => fields.values().all(is_blank),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

/// Returns whether a rule has an effect in the namespaces that it selects.
fn has_effect(rule: &Value) -> bool {
    ["quota", "enforce", "permissions"].iter().filter_map(|part| rule.get(part)).any(|part| !is_blank(part))
}

/// Returns whether an owner has settings that the proxy does not know: nodes, and rights to change objects.
fn uses_proxy(owner: &OwnerSpec) -> bool {
    owner.proxy_settings.iter().any(|settings| {
        let is_shown = ProxyKind::SHOWN.contains(&settings.kind);
        settings.operations.iter().any(|operation| !is_shown || *operation != ProxyOperation::List)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn unsupported(spec: Value) -> Vec<&'static str> {
        fields(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn enforced_fields_are_not_listed() {
        let spec = json!({
            "owners": [{ "kind": "User", "name": "alice" }],
            "namespaceOptions": {
                "quota": 3, "additionalMetadata": { "labels": { "a": "b" } }, "managedMetadataOnly": true,
                "requiredMetadata": { "labels": { "env": "" } }, "forbiddenLabels": { "denied": ["a"] },
            },
            "forceTenantPrefix": true,
            "nodeSelector": { "kubernetes.io/os": "linux" },
            "limitRanges": { "items": [] },
            "networkPolicies": { "items": [] },
            "resourceQuotas": { "items": [] },
            "permissions": { "matchOwners": [{ "matchLabels": { "team": "blue" } }] },
            "cordoned": true,
            "storageClasses": { "allowed": ["default"] },
            "ingressOptions": {
                "allowedClasses": { "allowed": ["default"] }, "hostnameCollisionScope": "Cluster",
                "allowedHostnames": { "allowed": ["a"] },
            },
            "serviceOptions": { "additionalMetadata": {}, "externalIPs": { "allowed": [] } },
            "priorityClasses": {}, "runtimeClasses": {}, "containerRegistries": {}, "imagePullPolicies": ["Always"],
            "podOptions": { "additionalMetadata": { "labels": { "a": "b" } } },
            "deviceClasses": { "allowed": ["gpu"] }, "gatewayOptions": { "allowedClasses": { "allowed": ["a"] } },
        });
        assert!(unsupported(spec).is_empty());
    }

    #[test]
    fn empty_field_is_listed_if_it_restricts_something() {
        let unrestricted = [
            json!({ "data": { "size": 3 } }),
            json!({ "owners": [{ "kind": "User", "name": "a", "proxySettings": [{ "kind": "Nodes", "operations": [] }] }] }),
            json!({ "rules": [] }),
            json!({ "rules": [{}, { "namespaceSelector": { "matchLabels": { "a": "b" } }, "enforce": {}, "permissions": { "bindings": [] } }] }),
        ];
        for spec in unrestricted {
            assert_eq!(unsupported(spec.clone()), [""; 0], "{spec}");
        }
        let restricted =
            [(json!({ "rules": [{ "enforce": { "services": { "types": ["NodePort"] } } }] }), "spec.rules")];
        for (spec, path) in restricted {
            assert_eq!(unsupported(spec.clone()), [path], "{spec}");
        }
    }

    #[test]
    fn proxy_shows_lists_of_all_kinds_but_nodes() {
        for (kind, operation, expected) in [
            ("StorageClasses", "List", false),
            ("PersistentVolumes", "List", false),
            ("StorageClasses", "Update", true),
            ("IngressClasses", "Delete", true),
            ("Nodes", "List", true),
        ] {
            let settings = json!([{ "kind": kind, "operations": [operation] }]);
            let spec = json!({ "owners": [{ "kind": "User", "name": "a", "proxySettings": settings }] });
            let found = fields(&serde_json::from_value(spec).unwrap());
            assert_eq!(found == ["spec.owners[].proxySettings"], expected, "{kind} {operation}");
        }
    }
}
