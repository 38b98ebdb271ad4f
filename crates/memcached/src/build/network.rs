//! The optional NetworkPolicy of a Memcached.

use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicySpec};
use operator_core::{
    labels,
    network_policy::{Peer, ingress_rule},
};

use super::{COMPONENT, CONTAINER, DesiredCache, exporter::METRICS_PORT, object_labels, selector};
use crate::api::NetworkAccess;

/// Sets the desired state of the whole policy. To grant more access, create another policy:
/// policies are additive.
pub(crate) fn mutate(desired: &DesiredCache<'_>, network: &NetworkAccess, policy: &mut NetworkPolicy) {
    labels::add(&mut policy.metadata.labels, object_labels(desired.cache, COMPONENT));
    let has_metrics = desired.cache.spec.metrics.is_some();
    let ports = if has_metrics { [CONTAINER, METRICS_PORT].as_slice() } else { &[CONTAINER] };
    let mut rules = vec![rule(&network.from, ports)];
    // A rule without peers would allow everybody.
    if has_metrics && !network.metrics_from.is_empty() {
        rules.push(rule(&network.metrics_from, &[METRICS_PORT]));
    }
    policy.spec = Some(NetworkPolicySpec {
        pod_selector: Some(selector(desired.cache)),
        policy_types: Some(vec!["Ingress".to_owned()]),
        ingress: Some(rules),
        egress: None,
    });
}

/// Returns a rule that allows these peers.
fn rule(peers: &[Peer], ports: &[&str]) -> NetworkPolicyIngressRule {
    ingress_rule(Some(peers.iter().map(Into::into).collect()), ports)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::build::fixture::{cache, desired};

    fn policy(spec: &Value) -> NetworkPolicy {
        let cache = cache(spec);
        let mut policy = NetworkPolicy::default();
        mutate(&desired(&cache), cache.spec.network_policy.as_ref().unwrap(), &mut policy);
        policy
    }

    #[test]
    fn clients_reach_both_ports_and_prometheus_only_the_exporter() {
        insta::assert_yaml_snapshot!(policy(&json!({
            "metrics": {},
            "networkPolicy": {
                "from": [
                    {"podSelector": {"matchLabels": {"tier": "front"}}},
                    {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}]}},
                    {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
                ],
                "metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
            },
        })));
    }

    #[test]
    fn policy_without_exporter_allows_only_memcached() {
        let made = policy(&json!({"networkPolicy": {"from": [{"podSelector": {}}]}}));
        let made = serde_json::to_value(made.spec.unwrap().ingress).unwrap();
        let ports = json!([{"port": "memcached", "protocol": "TCP"}]);
        assert_eq!(made, json!([{"from": [{"podSelector": {}}], "ports": ports}]));
    }

    #[test]
    fn empty_metrics_from_adds_no_rule() {
        let made = policy(&json!({"metrics": {}, "networkPolicy": {"from": [{"podSelector": {}}]}}));
        assert_eq!(made.spec.unwrap().ingress.unwrap().len(), 1);
    }

    #[test]
    fn reverts_foreign_rules() {
        let spec = json!({"networkPolicy": {"from": [{"podSelector": {}}]}});
        let (wanted, cache) = (policy(&spec), cache(&spec));
        let mut drifted = wanted.clone();
        let rules = &mut drifted.spec.as_mut().unwrap().ingress;
        rules.as_mut().unwrap().push(NetworkPolicyIngressRule::default());
        mutate(&desired(&cache), cache.spec.network_policy.as_ref().unwrap(), &mut drifted);
        assert_eq!(drifted, wanted);
    }
}
