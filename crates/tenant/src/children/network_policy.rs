//! NetworkPolicies of a namespace.

use capsule::{
    api::{names::NETWORK_POLICY_LABEL, v1beta2::NetworkPolicies},
    cidr,
};
use k8s_openapi::{
    api::networking::v1::{IPBlock, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};

use super::{Child, apply_meta, keyed_meta};

/// Returns the NetworkPolicies of a namespace, with canonical CIDRs.
pub fn network_policies(tenant: &str, namespace: &str, policies: &NetworkPolicies) -> Vec<NetworkPolicy> {
    let object = |(index, spec): (usize, &NetworkPolicySpec)| {
        let mut spec = spec.clone();
        for_each_block(&mut spec, |_, block| {
            let fields = std::iter::once(&mut block.cidr).chain(block.except.iter_mut().flatten());
            // Invalid CIDRs stay unchanged, so that the API server reports them.
            fields.for_each(|text| *text = cidr::canonical(text).unwrap_or_else(|_| text.clone()));
        });
        NetworkPolicy {
            metadata: keyed_meta(tenant, namespace, "network-policy", NETWORK_POLICY_LABEL, index),
            spec: Some(spec),
        }
    };
    policies.items.iter().enumerate().map(object).collect()
}

/// Returns a warning for each CIDR that is replaced by its canonical form.
pub fn cidr_warnings(policies: &NetworkPolicies) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, spec) in policies.items.iter().enumerate() {
        for_each_block(&mut spec.clone(), |path, block| {
            let path = format!("spec.networkPolicies.items[{index}].{path}.ipBlock");
            let excepted = block.except.iter().flatten().enumerate();
            let fields = std::iter::once((format!("{path}.cidr"), &block.cidr))
                .chain(excepted.map(|(at, text)| (format!("{path}.except[{at}]"), text)));
            warnings.extend(fields.filter_map(|(path, text)| {
                cidr::canonical(text).ok().and_then(|used| cidr::warning(&path, text, &used))
            }));
        });
    }
    warnings
}

impl Child for NetworkPolicy {
    fn apply_to(&self, found: &mut Self) {
        apply_meta(&self.metadata, &mut found.metadata);
        if self.spec.as_ref().map(with_defaults) != found.spec.as_ref().map(with_defaults) {
            found.spec.clone_from(&self.spec);
        }
    }
}

/// Adds the defaults of the API server (`SetDefaults_NetworkPolicy`): policy types and protocols.
/// Removes empty lists and maps.
fn with_defaults(spec: &NetworkPolicySpec) -> NetworkPolicySpec {
    let mut spec = spec.clone();
    if spec.policy_types.as_ref().is_none_or(Vec::is_empty) {
        let egress = spec.egress.as_ref().is_some_and(|rules| !rules.is_empty());
        let types = if egress { vec!["Ingress", "Egress"] } else { vec!["Ingress"] };
        spec.policy_types = Some(types.into_iter().map(str::to_owned).collect());
    }
    spec.pod_selector.get_or_insert_default();
    spec.pod_selector.as_mut().map(remove_empty_fields);
    for rule in spec.ingress.iter_mut().flatten() {
        rule.ports.iter_mut().flatten().for_each(add_protocol);
        rule.from.iter_mut().flatten().for_each(normalize_peer);
        remove_empty(&mut rule.ports);
        remove_empty(&mut rule.from);
    }
    for rule in spec.egress.iter_mut().flatten() {
        rule.ports.iter_mut().flatten().for_each(add_protocol);
        rule.to.iter_mut().flatten().for_each(normalize_peer);
        remove_empty(&mut rule.ports);
        remove_empty(&mut rule.to);
    }
    remove_empty(&mut spec.ingress);
    remove_empty(&mut spec.egress);
    spec
}

fn add_protocol(port: &mut NetworkPolicyPort) {
    port.protocol.get_or_insert_with(|| "TCP".to_owned());
}

fn normalize_peer(peer: &mut NetworkPolicyPeer) {
    peer.namespace_selector.as_mut().map(remove_empty_fields);
    peer.pod_selector.as_mut().map(remove_empty_fields);
    if let Some(block) = &mut peer.ip_block {
        remove_empty(&mut block.except);
    }
}

fn remove_empty_fields(selector: &mut LabelSelector) {
    selector
        .match_expressions
        .iter_mut()
        .flatten()
        .for_each(|requirement| remove_empty(&mut requirement.values));
    remove_empty(&mut selector.match_expressions);
    selector.match_labels.take_if(|labels| labels.is_empty());
}

fn remove_empty<T>(list: &mut Option<Vec<T>>) {
    list.take_if(|list| list.is_empty());
}

/// Calls `visit` for every IP block with its path in the policy.
fn for_each_block(spec: &mut NetworkPolicySpec, mut visit: impl FnMut(String, &mut IPBlock)) {
    let ingress = spec.ingress.iter_mut().flatten().map(|rule| &mut rule.from);
    let egress = spec.egress.iter_mut().flatten().map(|rule| &mut rule.to);
    let ingress = ingress.enumerate().map(|(at, peers)| (format!("ingress[{at}].from"), peers));
    let egress = egress.enumerate().map(|(at, peers)| (format!("egress[{at}].to"), peers));
    for (path, peers) in ingress.chain(egress) {
        for (at, peer) in peers.iter_mut().flatten().enumerate() {
            if let Some(block) = &mut peer.ip_block {
                visit(format!("{path}[{at}]"), block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn policies(items: &Value) -> NetworkPolicies {
        serde_json::from_value(json!({ "items": items })).unwrap()
    }

    fn desired(item: &Value) -> NetworkPolicy {
        network_policies("oil", "oil-dev", &policies(&json!([item]))).pop().unwrap()
    }

    fn oil() -> Value {
        json!({
            "policyTypes": ["Ingress", "Egress"],
            "podSelector": {},
            "egress": [{ "to": [{ "ipBlock": { "cidr": "0.0.0.0/0", "except": ["192.168.0.0/12"] } }] }],
            "ingress": [{ "from": [
                { "namespaceSelector": { "matchLabels": { "capsule.clastix.io/tenant": "oil" } } },
                { "podSelector": {} },
                { "ipBlock": { "cidr": "192.168.0.0/12" } },
            ] }],
        })
    }

    #[test]
    fn cidrs_become_canonical_with_a_warning_each() {
        let created = serde_json::to_value(desired(&oil()).spec.unwrap()).unwrap();
        assert_eq!(created["egress"][0]["to"][0]["ipBlock"]["except"][0], "192.160.0.0/12");
        assert_eq!(created["ingress"][0]["from"][2]["ipBlock"]["cidr"], "192.160.0.0/12");
        let warnings = cidr_warnings(&policies(&json!([oil()])));
        assert_eq!(warnings.len(), 2);
        assert!(warnings[0].starts_with("spec.networkPolicies.items[0].ingress[0].from[2].ipBlock.cidr: "));
        assert!(warnings[1].starts_with("spec.networkPolicies.items[0].egress[0].to[0].ipBlock.except[0]: "));
    }

    #[test]
    fn invalid_cidr_stays_unchanged() {
        let item =
            json!({ "podSelector": {}, "egress": [{ "to": [{ "ipBlock": { "cidr": "everywhere" } }] }] });
        let created = serde_json::to_value(desired(&item).spec.unwrap()).unwrap();
        assert_eq!(created["egress"][0]["to"][0]["ipBlock"]["cidr"], "everywhere");
    }

    #[test]
    fn defaults_of_the_api_server_and_empty_fields_are_no_difference() {
        let desired = desired(&json!({
            "podSelector": { "matchLabels": {}, "matchExpressions": [] },
            "ingress": [{ "from": [], "ports": [{ "port": 80 }] }],
            "egress": [],
        }));
        let mut found = desired.clone();
        found.spec = serde_json::from_value(json!({
            "podSelector": {},
            "ingress": [{ "ports": [{ "port": 80, "protocol": "TCP" }] }],
            "policyTypes": ["Ingress"],
        }))
        .unwrap();
        let before = found.clone();
        desired.apply_to(&mut found);
        assert_eq!(found, before);
    }

    #[test]
    fn policy_with_egress_rules_gets_both_policy_types() {
        let spec: NetworkPolicySpec =
            serde_json::from_value(json!({ "podSelector": {}, "egress": [{}] })).unwrap();
        assert_eq!(with_defaults(&spec).policy_types.unwrap(), ["Ingress", "Egress"]);
    }

    #[test]
    fn changed_rule_is_repaired() {
        let desired = desired(&oil());
        let mut found = desired.clone();
        found.spec.as_mut().unwrap().ingress = None;
        desired.apply_to(&mut found);
        assert_eq!(found, desired);
    }
}
