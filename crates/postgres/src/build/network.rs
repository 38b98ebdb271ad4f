//! The NetworkPolicy of a cluster.

use k8s_openapi::{
    api::networking::v1::{NetworkPolicy, NetworkPolicyPeer, NetworkPolicySpec},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use operator_core::{labels, network_policy::ingress_rule};

use super::{APP, container::PUBLIC_PORTS, object_labels, selector};
use crate::api::PostgresCluster;

/// Sets the desired state of the whole policy. To grant more access, create another policy: policies
/// are additive.
pub(crate) fn mutate(cluster: &PostgresCluster, policy: &mut NetworkPolicy) {
    labels::add(&mut policy.metadata.labels, object_labels(cluster));
    let members = selected(selector(cluster));
    let clients = match cluster.spec.network_policy.clients.as_slice() {
        [] => vec![selected(LabelSelector::default())],
        clients => clients.iter().map(Into::into).collect(),
    };
    let database = clients.into_iter().chain([members]).collect();
    policy.spec = Some(NetworkPolicySpec {
        pod_selector: Some(selector(cluster)),
        policy_types: Some(vec!["Ingress".to_owned()]),
        // The operator and the API server can be outside of the cluster, where no selector finds them.
        ingress: Some(vec![ingress_rule(Some(database), &[APP]), ingress_rule(None, &PUBLIC_PORTS)]),
        egress: None,
    });
}

/// Returns the Pods of the namespace that a selector selects.
fn selected(pods: LabelSelector) -> NetworkPolicyPeer {
    NetworkPolicyPeer { pod_selector: Some(pods), ..NetworkPolicyPeer::default() }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::networking::v1::NetworkPolicyIngressRule;
    use serde_json::{Value, json};

    use super::*;
    use crate::api::fixture::cluster;

    fn policy(spec: &Value) -> NetworkPolicy {
        let mut policy = NetworkPolicy::default();
        mutate(&cluster(spec), &mut policy);
        policy
    }

    #[test]
    fn pods_of_the_namespace_may_connect_by_default() {
        insta::assert_yaml_snapshot!(policy(&json!({})).spec);
    }

    #[test]
    fn only_clients_and_members_may_connect() {
        let client = json!({"namespaceSelector": {"matchLabels": {"team": "shop"}}});
        let made = policy(&json!({"networkPolicy": {"clients": [client]}}));
        let from = made.spec.unwrap().ingress.unwrap().remove(0).from.unwrap();
        let from = serde_json::to_value(from).unwrap();
        assert_eq!(from[0], client);
        assert_eq!(from.as_array().unwrap().len(), 2, "{from}");
    }

    #[test]
    fn reverts_foreign_rules() {
        let wanted = policy(&json!({}));
        let mut drifted = wanted.clone();
        let rules = &mut drifted.spec.as_mut().unwrap().ingress;
        rules.as_mut().unwrap().push(NetworkPolicyIngressRule::default());
        mutate(&cluster(&json!({})), &mut drifted);
        assert_eq!(drifted, wanted);
    }
}
