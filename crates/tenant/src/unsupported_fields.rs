//! Fields that a spec can set and that this version does not enforce. A condition lists them.

use capsule::api::v1beta2::{
    AllowedServices, ForbiddenList, HostnameCollisionScope, IngressOptions, NamespaceOptions, OwnerSpec,
    PodOptions, ProxyKind, ProxyOperation, RequiredMetadata, ServiceOptions, TenantSpec,
};
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
/// A field counts as set if it restricts something. An empty list of allowed classes, hosts, or
/// registries allows nothing, so it counts. An empty list of forbidden keys forbids nothing, so it
/// does not.
pub fn fields(spec: &TenantSpec) -> Vec<&'static str> {
    let namespaces = spec.namespace_options.iter().flat_map(namespace_fields);
    let ingresses = spec.ingress_options.iter().flat_map(ingress_fields);
    let services = spec.service_options.iter().flat_map(service_fields);
    let fields = [
        ("spec.data", spec.data.as_ref().is_some_and(|data| !is_blank(data))),
        ("spec.owners[].proxySettings", spec.owners.iter().any(uses_proxy)),
        ("spec.priorityClasses", spec.priority_classes.is_some()),
        ("spec.runtimeClasses", spec.runtime_classes.is_some()),
        ("spec.deviceClasses", spec.device_classes.is_some()),
        (
            "spec.gatewayOptions",
            spec.gateway_options.as_ref().is_some_and(|options| options.allowed_classes.is_some()),
        ),
        ("spec.cordoned", spec.cordoned),
        ("spec.podOptions", spec.pod_options.as_ref().is_some_and(adds_metadata)),
        ("spec.containerRegistries", spec.container_registries.is_some()),
        ("spec.imagePullPolicies", !spec.image_pull_policies.is_empty()),
        ("spec.rules", spec.rules.iter().any(has_effect)),
    ];
    let set = fields.into_iter().filter_map(|(path, set)| set.then_some(path));
    set.chain(namespaces).chain(ingresses).chain(services).collect()
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

fn adds_metadata(options: &PodOptions) -> bool {
    options.additional_metadata.as_ref().is_some_and(|metadata| !metadata.is_empty())
}

fn restricts(services: &AllowedServices) -> bool {
    *services != AllowedServices::default()
}

fn forbids(list: &ForbiddenList) -> bool {
    !list.is_empty()
}

fn requires(metadata: &RequiredMetadata) -> bool {
    !metadata.labels.is_empty() || !metadata.annotations.is_empty()
}

fn ingress_fields(options: &IngressOptions) -> impl Iterator<Item = &'static str> + use<> {
    let collisions = options.hostname_collision_scope != HostnameCollisionScope::Disabled;
    [
        ("spec.ingressOptions.hostnameCollisionScope", collisions),
        ("spec.ingressOptions.allowedHostnames", options.allowed_hostnames.is_some()),
    ]
    .into_iter()
    .filter_map(|(path, set)| set.then_some(path))
}

fn service_fields(options: &ServiceOptions) -> impl Iterator<Item = &'static str> + use<> {
    [
        ("spec.serviceOptions.allowedServices", options.allowed_services.as_ref().is_some_and(restricts)),
        ("spec.serviceOptions.externalIPs", options.external_ips.is_some()),
        ("spec.serviceOptions.forbiddenLabels", options.forbidden_labels.as_ref().is_some_and(forbids)),
        (
            "spec.serviceOptions.forbiddenAnnotations",
            options.forbidden_annotations.as_ref().is_some_and(forbids),
        ),
    ]
    .into_iter()
    .filter_map(|(path, set)| set.then_some(path))
}

fn namespace_fields(options: &NamespaceOptions) -> impl Iterator<Item = &'static str> + use<> {
    [
        ("spec.namespaceOptions.requiredMetadata", options.required_metadata.as_ref().is_some_and(requires)),
        ("spec.namespaceOptions.forbiddenLabels", options.forbidden_labels.as_ref().is_some_and(forbids)),
        (
            "spec.namespaceOptions.forbiddenAnnotations",
            options.forbidden_annotations.as_ref().is_some_and(forbids),
        ),
        ("spec.namespaceOptions.managedMetadataOnly", options.managed_metadata_only),
    ]
    .into_iter()
    .filter_map(|(path, set)| set.then_some(path))
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
            "namespaceOptions": { "quota": 3, "additionalMetadata": { "labels": { "a": "b" } } },
            "forceTenantPrefix": true,
            "nodeSelector": { "kubernetes.io/os": "linux" },
            "limitRanges": { "items": [] },
            "networkPolicies": { "items": [] },
            "resourceQuotas": { "items": [] },
            "permissions": { "matchOwners": [{ "matchLabels": { "team": "blue" } }] },
            "cordoned": false,
            "storageClasses": { "allowed": ["default"] },
            "ingressOptions": { "allowedClasses": { "allowed": ["default"] }, "hostnameCollisionScope": "Disabled" },
            "serviceOptions": { "additionalMetadata": {} },
        });
        assert!(unsupported(spec).is_empty());
    }

    #[test]
    fn unsupported_fields_are_listed() {
        let spec = json!({
            "namespaceOptions": { "managedMetadataOnly": true },
            "cordoned": true,
            "ingressOptions": { "allowedHostnames": { "allowed": ["a"] } },
            "serviceOptions": { "externalIPs": { "allowed": [] } },
        });
        let expected = [
            "spec.cordoned",
            "spec.namespaceOptions.managedMetadataOnly",
            "spec.ingressOptions.allowedHostnames",
            "spec.serviceOptions.externalIPs",
        ];
        assert_eq!(unsupported(spec), expected);
    }

    #[test]
    fn empty_field_is_listed_if_it_restricts_something() {
        let unrestricted = [
            json!({ "data": {} }),
            json!({ "data": null }),
            json!({ "owners": [{ "kind": "User", "name": "a", "proxySettings": [{ "kind": "Nodes", "operations": [] }] }] }),
            json!({ "gatewayOptions": {} }),
            json!({ "podOptions": {} }),
            json!({ "podOptions": { "additionalMetadata": { "labels": {}, "annotations": {} } } }),
            json!({ "imagePullPolicies": [] }),
            json!({ "rules": [] }),
            json!({ "rules": [{}, { "namespaceSelector": { "matchLabels": { "a": "b" } }, "enforce": {}, "permissions": { "bindings": [] } }] }),
            json!({ "ingressOptions": {} }),
            json!({ "serviceOptions": { "allowedServices": {} } }),
            json!({ "serviceOptions": { "forbiddenLabels": {}, "forbiddenAnnotations": { "denied": [], "deniedRegex": "" } } }),
            json!({ "namespaceOptions": { "requiredMetadata": {} } }),
            json!({ "namespaceOptions": { "requiredMetadata": { "labels": {}, "annotations": {} } } }),
            json!({ "namespaceOptions": { "forbiddenLabels": { "denied": [], "deniedRegex": "" }, "forbiddenAnnotations": {} } }),
        ];
        for spec in unrestricted {
            assert_eq!(unsupported(spec.clone()), [""; 0], "{spec}");
        }
        let list = || json!({ "allowed": [], "allowedRegex": "" });
        let restricted = [
            (json!({ "priorityClasses": list() }), "spec.priorityClasses"),
            (json!({ "runtimeClasses": {} }), "spec.runtimeClasses"),
            (json!({ "deviceClasses": list() }), "spec.deviceClasses"),
            (json!({ "gatewayOptions": { "allowedClasses": list() } }), "spec.gatewayOptions"),
            (json!({ "containerRegistries": list() }), "spec.containerRegistries"),
            (
                json!({ "ingressOptions": { "allowedHostnames": list() } }),
                "spec.ingressOptions.allowedHostnames",
            ),
            (
                json!({ "serviceOptions": { "externalIPs": { "allowed": [] } } }),
                "spec.serviceOptions.externalIPs",
            ),
            (
                json!({ "serviceOptions": { "allowedServices": { "nodePort": false } } }),
                "spec.serviceOptions.allowedServices",
            ),
            (
                json!({ "namespaceOptions": { "requiredMetadata": { "labels": { "env": "" } } } }),
                "spec.namespaceOptions.requiredMetadata",
            ),
            (
                json!({ "namespaceOptions": { "forbiddenLabels": { "denied": ["a"] } } }),
                "spec.namespaceOptions.forbiddenLabels",
            ),
            (
                json!({ "namespaceOptions": { "forbiddenAnnotations": { "deniedRegex": "a" } } }),
                "spec.namespaceOptions.forbiddenAnnotations",
            ),
            (json!({ "rules": [{ "enforce": { "services": { "types": ["NodePort"] } } }] }), "spec.rules"),
            (json!({ "data": { "size": 3 } }), "spec.data"),
        ];
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
