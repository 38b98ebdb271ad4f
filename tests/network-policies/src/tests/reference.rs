//! Evaluates policies directly on objects of the API, as its documentation describes them.

use std::{collections::BTreeMap, net::Ipv4Addr};

use k8s_openapi::{
    api::{
        core::v1::Pod,
        networking::v1::{IPBlock, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort},
    },
    apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString},
};

use super::Cluster;

/// The first packet of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    pub(super) source: Ipv4Addr,
    pub(super) destination: Ipv4Addr,
    pub(super) protocol: &'static str,
    pub(super) port: u16,
}

/// Returns whether the policies allow a connection.
pub(super) fn allows(cluster: &Cluster, connection: &Connection) -> bool {
    connection.source == connection.destination
        || (allows_egress(cluster, connection) && allows_ingress(cluster, connection))
}

fn allows_egress(cluster: &Cluster, connection: &Connection) -> bool {
    let Some(pod) = pod_at(cluster, connection.source) else { return true };
    let mut policies = policies_of(cluster, pod, "Egress").peekable();
    policies.peek().is_none()
        || policies.any(|policy| {
            let rules = policy.spec.iter().flat_map(|spec| spec.egress.iter().flatten());
            rules.into_iter().any(|rule| {
                let peers = rule.to.as_deref().unwrap_or_default();
                let ports = rule.ports.as_deref().unwrap_or_default();
                any_peer(cluster, policy, peers, connection.destination)
                    && any_port(cluster, ports, connection)
            })
        })
}

fn allows_ingress(cluster: &Cluster, connection: &Connection) -> bool {
    let Some(pod) = pod_at(cluster, connection.destination) else { return true };
    let mut policies = policies_of(cluster, pod, "Ingress").peekable();
    policies.peek().is_none()
        || policies.any(|policy| {
            let rules = policy.spec.iter().flat_map(|spec| spec.ingress.iter().flatten());
            rules.into_iter().any(|rule| {
                let peers = rule.from.as_deref().unwrap_or_default();
                let ports = rule.ports.as_deref().unwrap_or_default();
                any_peer(cluster, policy, peers, connection.source) && any_port(cluster, ports, connection)
            })
        })
}

/// Returns the Pod that has the address for itself.
fn pod_at(cluster: &Cluster, address: Ipv4Addr) -> Option<&Pod> {
    cluster.pods.iter().find(|pod| {
        let status = pod.status.as_ref().unwrap();
        status.pod_ip == Some(address.to_string())
            && pod.spec.as_ref().unwrap().host_network != Some(true)
            && ["Pending", "Running"].contains(&status.phase.as_deref().unwrap())
    })
}

fn policies_of<'a>(
    cluster: &'a Cluster,
    pod: &'a Pod,
    direction: &'a str,
) -> impl Iterator<Item = &'a NetworkPolicy> {
    cluster.policies.iter().filter(move |policy| {
        let spec = policy.spec.as_ref().unwrap();
        let types = match spec.policy_types.as_deref() {
            None | Some([]) if spec.egress.iter().flatten().next().is_some() => vec!["Ingress", "Egress"],
            None | Some([]) => vec!["Ingress"],
            Some(types) => types.iter().map(String::as_str).collect(),
        };
        policy.metadata.namespace == pod.metadata.namespace
            && types.contains(&direction)
            && spec.pod_selector.as_ref().is_none_or(|selector| selects(selector, &labels(pod)))
    })
}

fn any_peer(
    cluster: &Cluster,
    policy: &NetworkPolicy,
    peers: &[NetworkPolicyPeer],
    address: Ipv4Addr,
) -> bool {
    peers.is_empty()
        || peers.iter().any(|peer| match &peer.ip_block {
            Some(block) => in_block(block, address),
            None => pod_at(cluster, address).is_some_and(|pod| is_peer(cluster, policy, peer, pod)),
        })
}

fn is_peer(cluster: &Cluster, policy: &NetworkPolicy, peer: &NetworkPolicyPeer, pod: &Pod) -> bool {
    let in_namespace = match &peer.namespace_selector {
        None => pod.metadata.namespace == policy.metadata.namespace,
        Some(selector) => cluster.namespaces.iter().any(|namespace| {
            let labels = namespace.metadata.labels.clone().unwrap_or_default();
            namespace.metadata.name == pod.metadata.namespace && selects(selector, &labels)
        }),
    };
    in_namespace && peer.pod_selector.as_ref().is_none_or(|selector| selects(selector, &labels(pod)))
}

fn in_block(block: &IPBlock, address: Ipv4Addr) -> bool {
    let inside = |cidr: &String| {
        let (network, prefix) = cidr.split_once('/').unwrap();
        let host_bits = 32 - prefix.parse::<u64>().unwrap();
        let network: Ipv4Addr = network.parse().unwrap();
        u64::from(u32::from(network)) >> host_bits == u64::from(u32::from(address)) >> host_bits
    };
    inside(&block.cidr) && !block.except.iter().flatten().any(inside)
}

fn any_port(cluster: &Cluster, ports: &[NetworkPolicyPort], connection: &Connection) -> bool {
    ports.is_empty()
        || ports.iter().any(|port| {
            let number = i32::from(connection.port);
            port.protocol.as_deref().unwrap_or("TCP") == connection.protocol
                && match &port.port {
                    None => true,
                    Some(IntOrString::Int(first)) => {
                        (*first..=port.end_port.unwrap_or(*first)).contains(&number)
                    }
                    Some(IntOrString::String(name)) => pod_at(cluster, connection.destination)
                        .is_some_and(|pod| number_of(pod, name, connection.protocol) == Some(number)),
                }
        })
}

fn number_of(pod: &Pod, name: &str, protocol: &str) -> Option<i32> {
    let ports = pod.spec.as_ref()?.containers.iter().flat_map(|container| container.ports.iter().flatten());
    let mut named = ports.filter(|port| {
        port.name.as_deref() == Some(name) && port.protocol.as_deref().unwrap_or("TCP") == protocol
    });
    named.next().map(|port| port.container_port)
}

fn labels(pod: &Pod) -> BTreeMap<String, String> {
    pod.metadata.labels.clone().unwrap_or_default()
}

fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    equal
        && selector.match_expressions.iter().flatten().all(|requirement| {
            let value = labels.get(&requirement.key);
            let is_listed =
                value.is_some_and(|value| requirement.values.iter().flatten().any(|v| v == value));
            match requirement.operator.as_str() {
                "In" => is_listed,
                "NotIn" => !is_listed,
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                operator => panic!("unknown operator {operator}"),
            }
        })
}
