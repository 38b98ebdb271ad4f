//! Fields that a Tenant may set and that nothing enforces yet: it says so instead of ignoring them.

use operator_core::conditions::Verdict;

use crate::{
    api::v1beta2::{HostnameCollisionScope, IngressOptions, NamespaceOptions, ServiceOptions, TenantSpec},
    words::{ENFORCED, FIELDS_ENFORCED, NOT_YET_ENFORCED},
};

/// What is said of the fields that are set and not enforced.
pub(crate) fn verdict(fields: &[&'static str]) -> Verdict {
    if fields.is_empty() {
        return Verdict::is_true(FIELDS_ENFORCED, ENFORCED, "every field that is set is enforced");
    }
    let message = format!("these fields are set and not enforced by this version: {}", fields.join(", "));
    Verdict::is_false(FIELDS_ENFORCED, NOT_YET_ENFORCED, message)
}

/// The paths of the fields that are set and not enforced.
pub fn fields(spec: &TenantSpec) -> Vec<&'static str> {
    let namespaces = spec.namespace_options.iter().flat_map(namespace_fields);
    let ingresses = spec.ingress_options.iter().flat_map(ingress_fields);
    let services = spec.service_options.iter().flat_map(service_fields);
    let fields = [
        ("spec.data", spec.data.is_some()),
        ("spec.owners[].proxySettings", spec.owners.iter().any(|owner| !owner.proxy_settings.is_empty())),
        ("spec.priorityClasses", spec.priority_classes.is_some()),
        ("spec.runtimeClasses", spec.runtime_classes.is_some()),
        ("spec.deviceClasses", spec.device_classes.is_some()),
        ("spec.gatewayOptions", spec.gateway_options.is_some()),
        ("spec.cordoned", spec.cordoned),
        ("spec.podOptions", spec.pod_options.is_some()),
        ("spec.containerRegistries", spec.container_registries.is_some()),
        ("spec.imagePullPolicies", !spec.image_pull_policies.is_empty()),
        ("spec.rules", !spec.rules.is_empty()),
    ];
    let set = fields.into_iter().filter_map(|(path, set)| set.then_some(path));
    set.chain(namespaces).chain(ingresses).chain(services).collect()
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
        ("spec.serviceOptions.allowedServices", options.allowed_services.is_some()),
        ("spec.serviceOptions.externalIPs", options.external_ips.is_some()),
        ("spec.serviceOptions.forbiddenLabels", options.forbidden_labels.is_some()),
        ("spec.serviceOptions.forbiddenAnnotations", options.forbidden_annotations.is_some()),
    ]
    .into_iter()
    .filter_map(|(path, set)| set.then_some(path))
}

fn namespace_fields(options: &NamespaceOptions) -> impl Iterator<Item = &'static str> + use<> {
    [
        ("spec.namespaceOptions.requiredMetadata", options.required_metadata.is_some()),
        ("spec.namespaceOptions.forbiddenLabels", options.forbidden_labels.is_some()),
        ("spec.namespaceOptions.forbiddenAnnotations", options.forbidden_annotations.is_some()),
        ("spec.namespaceOptions.managedMetadataOnly", options.managed_metadata_only),
    ]
    .into_iter()
    .filter_map(|(path, set)| set.then_some(path))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(spec: Value) -> Vec<&'static str> {
        fields(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn what_is_enforced_is_not_named() {
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
        assert!(of(spec).is_empty());
    }

    #[test]
    fn what_is_set_and_comes_later_is_named() {
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
        assert_eq!(of(spec), expected);
    }
}
