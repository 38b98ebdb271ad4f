//! Labels of namespaces that select the webhooks for Pods and Services.
//!
//! A namespace has such a label only if its Tenant restricts the kind. Otherwise, the API server
//! does not call the webhook, so unused policies cost nothing.

use std::collections::BTreeMap;

use capsule::api::{names::CORDONED_LABEL, v1beta2::TenantSpec};

use super::{pods::PodPolicy, services::ServicePolicy};

/// Label of a namespace: its Tenant restricts or changes Pods.
pub(crate) const POD_POLICIES_LABEL: &str = "tenant.ensemble/pod-policies";
/// Label of a namespace: its Tenant restricts Services.
pub(crate) const SERVICE_POLICIES_LABEL: &str = "tenant.ensemble/service-policies";

/// Returns the labels that select webhooks for the namespaces of a Tenant.
pub(crate) fn policy_labels(spec: &TenantSpec) -> BTreeMap<String, String> {
    let labels = [
        (CORDONED_LABEL, spec.cordoned),
        (POD_POLICIES_LABEL, PodPolicy::applies(spec)),
        (SERVICE_POLICIES_LABEL, ServicePolicy::applies(spec)),
    ];
    let used = labels.into_iter().filter(|(_, is_used)| *is_used);
    used.map(|(label, _)| (label.to_owned(), "true".to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn labels(spec: Value) -> Vec<String> {
        policy_labels(&serde_json::from_value(spec).unwrap()).into_keys().collect()
    }

    #[test]
    fn namespace_has_only_labels_of_policies_in_use() {
        for unrestricted in [
            json!({}),
            json!({ "podOptions": { "additionalMetadata": {} }, "imagePullPolicies": [] }),
            json!({ "serviceOptions": { "allowedServices": {}, "forbiddenLabels": { "denied": [] } } }),
            json!({ "serviceOptions": { "additionalMetadata": { "labels": { "a": "b" } } } }),
        ] {
            assert_eq!(labels(unrestricted.clone()), [""; 0], "{unrestricted}");
        }
        for spec in [
            json!({ "containerRegistries": {} }),
            json!({ "imagePullPolicies": ["Always"] }),
            json!({ "priorityClasses": {} }),
            json!({ "runtimeClasses": { "default": "a" } }),
            json!({ "podOptions": { "additionalMetadata": { "labels": { "a": "b" } } } }),
        ] {
            assert_eq!(labels(spec.clone()), [POD_POLICIES_LABEL], "{spec}");
        }
        for spec in [
            json!({ "serviceOptions": { "externalIPs": { "allowed": [] } } }),
            json!({ "serviceOptions": { "allowedServices": { "nodePort": false } } }),
            json!({ "serviceOptions": { "forbiddenAnnotations": { "denied": ["a"] } } }),
        ] {
            assert_eq!(labels(spec.clone()), [SERVICE_POLICIES_LABEL], "{spec}");
        }
        assert_eq!(labels(json!({ "cordoned": true })), [CORDONED_LABEL]);
    }
}
