//! Applies the API server's defaults and canonical forms, so that an unchanged object compares
//! equal to the desired one. Pure functions.

use k8s_openapi::api::{
    core::v1::LimitRangeItem,
    networking::v1::{NetworkPolicyPort, NetworkPolicySpec},
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use operator_core::quantity::Quantity;
use serde_json::Value;
use std::collections::BTreeMap;

/// Amounts as in the Kubernetes API.
pub(crate) type ApiAmounts = BTreeMap<String, ApiQuantity>;

/// Converts amounts to canonical form. Invalid amounts stay unchanged.
pub(crate) fn canonical(amounts: &ApiAmounts) -> ApiAmounts {
    let canonical =
        |amount: &ApiQuantity| Quantity::try_from(amount).map_or_else(|_| amount.clone(), Into::into);
    amounts.iter().map(|(resource, amount)| (resource.clone(), canonical(amount))).collect()
}

/// Applies the API server's defaults to a limit. For containers, `default` defaults to `max`, and
/// `defaultRequest` to `default`, then `min`.
pub(crate) fn limit(mut item: LimitRangeItem) -> LimitRangeItem {
    if item.type_ == "Container" {
        fill(&mut item.default, item.max.as_ref());
        fill(&mut item.default_request, item.default.as_ref());
        fill(&mut item.default_request, item.min.as_ref());
    }
    for amounts in [
        &mut item.default,
        &mut item.default_request,
        &mut item.max,
        &mut item.max_limit_request_ratio,
        &mut item.min,
    ] {
        *amounts = amounts.take().filter(|amounts| !amounts.is_empty()).map(|amounts| canonical(&amounts));
    }
    item
}

fn fill(amounts: &mut Option<ApiAmounts>, from: Option<&ApiAmounts>) {
    let amounts = amounts.get_or_insert_default();
    for (resource, amount) in from.into_iter().flatten() {
        amounts.entry(resource.clone()).or_insert_with(|| amount.clone());
    }
}

/// Applies the API server's defaults to a policy: the policy types follow from the rules, and ports
/// are TCP.
pub(crate) fn policy(mut spec: NetworkPolicySpec) -> NetworkPolicySpec {
    spec.pod_selector.get_or_insert_default();
    let egress = spec.egress.as_ref().is_some_and(|rules| !rules.is_empty());
    spec.policy_types.get_or_insert_with(|| {
        ["Ingress"].into_iter().chain(egress.then_some("Egress")).map(str::to_owned).collect()
    });
    let ingress = spec.ingress.iter_mut().flatten().flat_map(|rule| rule.ports.iter_mut().flatten());
    ingress.for_each(protocol);
    let egress = spec.egress.iter_mut().flatten().flat_map(|rule| rule.ports.iter_mut().flatten());
    egress.for_each(protocol);
    spec
}

fn protocol(port: &mut NetworkPolicyPort) {
    port.protocol.get_or_insert_with(|| "TCP".to_owned());
}

/// Removes the nulls, empty lists, and empty `matchLabels` that the API server drops. Empty
/// selectors and rules stay, because they select everything.
pub(crate) fn without_empties(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(key, value)| (key, without_empties(value)))
                .filter(|(key, value)| !is_dropped(key, value))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(without_empties).collect()),
        other => other,
    }
}

fn is_dropped(key: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty() && key == "matchLabels",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn container_limit_gets_defaults() {
        let item: LimitRangeItem = serde_json::from_value(json!({
            "type": "Container", "max": {"cpu": "1000m"}, "min": {"cpu": "0.1", "memory": "1024Ki"},
        }))
        .unwrap();
        let expected = json!({
            "type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "100m", "memory": "1Mi"},
            "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1", "memory": "1Mi"},
        });
        let normal = limit(item);
        assert_eq!(serde_json::to_value(&normal).unwrap(), expected);
        assert_eq!(limit(normal.clone()), normal);
    }

    #[test]
    fn pod_limit_gets_no_defaults() {
        let item: LimitRangeItem =
            serde_json::from_value(json!({"type": "Pod", "max": {"cpu": "1"}, "default": {}})).unwrap();
        assert_eq!(serde_json::to_value(limit(item)).unwrap(), json!({"type": "Pod", "max": {"cpu": "1"}}));
    }

    #[test]
    fn policy_gets_types_and_protocols() {
        let spec = json!({
            "ingress": [{"from": [{"namespaceSelector": {"matchLabels": {}}}], "ports": []}],
            "egress": [{"ports": [{"port": 53}, {"port": 53, "protocol": "UDP"}]}],
        });
        let spec: NetworkPolicySpec = serde_json::from_value(without_empties(spec)).unwrap();
        let expected = json!({
            "podSelector": {},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [{"namespaceSelector": {}}]}],
            "egress": [{"ports": [{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}],
        });
        assert_eq!(serde_json::to_value(policy(spec)).unwrap(), expected);
    }

    #[test]
    fn policy_without_rules_defaults_to_ingress() {
        let spec = policy(NetworkPolicySpec { egress: Some(vec![]), ..NetworkPolicySpec::default() });
        assert_eq!(spec.policy_types, Some(vec!["Ingress".to_owned()]));
    }
}
