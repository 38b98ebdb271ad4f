//! Sends packets between Pods in network namespaces, with the scripts of [`network_policies::ruleset`].
//!
//! The tests need root, `nft`, `ip`, `unshare`, and `nsenter`:
//! `cargo test -p network-policies --test packets`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod connections;
mod network;

use connections::{Protocol, Server, connects};
use k8s_openapi::api::{
    core::v1::{Namespace, Pod},
    networking::v1::NetworkPolicy,
};
use network::Network;
use serde_json::{Value, json};

/// A network with two Pods on node `n1` and one on node `n2`, and the policies of its cluster.
struct Cluster {
    network: Network,
    pods: Vec<Pod>,
}

const A: &str = "10.244.0.2";
const B: &str = "10.244.0.3";
const C: &str = "10.244.1.2";

impl Cluster {
    fn new() -> Self {
        let network = Network::new(&[("n1", &[A, B]), ("n2", &[C])]);
        let pods = [("n1", "a", A), ("n1", "b", B), ("n2", "c", C)].map(pod).into();
        Self { network, pods }
    }

    /// Applies the policies on all nodes.
    fn apply(&self, specs: impl IntoIterator<Item = Value>) {
        let namespaces: [Namespace; 1] =
            [object(json!({"metadata": {"name": "default", "labels": {"name": "default"}}}))];
        let policies: Vec<NetworkPolicy> = specs
            .into_iter()
            .map(|spec| object(json!({"metadata": {"name": "policy", "namespace": "default"}, "spec": spec})))
            .collect();
        for node in ["n1", "n2"] {
            self.network.node(node).apply(&network_policies::ruleset(
                node,
                &self.pods,
                &namespaces,
                &policies,
            ));
        }
    }

    fn serve(&self, address: &str, protocol: Protocol, port: u16) -> Server {
        Server::start(self.network.pod(address), protocol, port)
    }

    fn connects(&self, from: &str, to: &str, protocol: Protocol, port: u16) -> bool {
        connects(self.network.pod(from), to, protocol, port)
    }
}

fn object<T: k8s_openapi::serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn pod((node, name, address): (&str, &str, &str)) -> Pod {
    object(json!({
        "metadata": {"namespace": "default", "name": name, "labels": {"name": name}},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "ports": [{"name": "web", "containerPort": 80}]}],
        },
        "status": {"phase": "Running", "podIP": address},
    }))
}

/// Returns a selector of the Pod with the name.
fn named(name: &str) -> Value {
    json!({"matchLabels": {"name": name}})
}

#[test]
fn ingress_is_restricted_on_the_same_node_and_across_nodes() {
    let cluster = Cluster::new();
    let _servers = [80, 81].map(|port| cluster.serve(B, Protocol::Tcp, port));
    let allowed = || [A, C].map(|from| [80, 81].map(|port| cluster.connects(from, B, Protocol::Tcp, port)));
    cluster.apply([]);
    assert_eq!(allowed(), [[true, true], [true, true]]);

    cluster.apply([json!({"podSelector": named("b")})]);
    assert_eq!(allowed(), [[false, false], [false, false]]);

    let from = |name: &str| json!({"from": [{"podSelector": named(name)}], "ports": [{"port": "web"}]});
    cluster.apply([json!({"podSelector": named("b"), "ingress": [from("a")]})]);
    assert_eq!(allowed(), [[true, false], [false, false]]);

    cluster.apply([json!({"podSelector": named("b"), "ingress": [from("c")]})]);
    assert_eq!(allowed(), [[false, false], [true, false]]);

    let both = [from("a"), from("c")].map(|rule| json!({"podSelector": named("b"), "ingress": [rule]}));
    cluster.apply(both);
    assert_eq!(allowed(), [[true, false], [true, false]]);

    cluster.apply([]);
    assert_eq!(allowed(), [[true, true], [true, true]]);
}

#[test]
fn egress_and_ingress_are_both_judged() {
    let cluster = Cluster::new();
    let _servers = [B, C].map(|to| cluster.serve(to, Protocol::Tcp, 80));
    let allowed = || [B, C].map(|to| cluster.connects(A, to, Protocol::Tcp, 80));
    let block = json!({"ipBlock": {"cidr": "10.244.0.0/16", "except": ["10.244.0.0/24"]}});
    let egress = json!({
        "podSelector": named("a"), "policyTypes": ["Egress"], "egress": [{"to": [block], "ports": [{"port": "web"}]}],
    });
    cluster.apply([egress.clone()]);
    assert_eq!(allowed(), [false, true]);

    cluster.apply([egress, json!({"podSelector": named("c")})]);
    assert_eq!(allowed(), [false, false]);
}

#[test]
fn protocols_and_port_ranges_are_matched() {
    let cluster = Cluster::new();
    let _servers = [52, 53, 54, 55].map(|port| cluster.serve(B, Protocol::Udp, port));
    let _server = cluster.serve(B, Protocol::Tcp, 53);
    let allowed = || [52, 53, 54, 55].map(|port| cluster.connects(C, B, Protocol::Udp, port));
    let ingress = |port: Value| json!({"podSelector": named("b"), "ingress": [{"ports": [port]}]});
    cluster.apply([ingress(json!({"protocol": "UDP", "port": 53, "endPort": 54}))]);
    assert_eq!(allowed(), [false, true, true, false]);
    assert!(!cluster.connects(C, B, Protocol::Tcp, 53));

    cluster.apply([ingress(json!({"protocol": "UDP"}))]);
    assert_eq!(allowed(), [true, true, true, true]);
    assert!(!cluster.connects(C, B, Protocol::Tcp, 53));

    cluster.apply([ingress(json!({"protocol": "SCTP", "port": 53}))]);
    assert_eq!(allowed(), [false, false, false, false]);
}

#[test]
fn the_node_and_the_pod_itself_can_always_connect() {
    let cluster = Cluster::new();
    let _server = cluster.serve(B, Protocol::Tcp, 80);
    cluster.apply([json!({"policyTypes": ["Ingress", "Egress"]})]);
    assert!(connects(cluster.network.node("n1"), B, Protocol::Tcp, 80));
    assert!(cluster.connects(B, B, Protocol::Tcp, 80));
    assert!(!connects(cluster.network.node("n2"), B, Protocol::Tcp, 80));
}

#[test]
fn established_connections_continue_when_a_policy_forbids_them() {
    let cluster = Cluster::new();
    let _server = cluster.serve(B, Protocol::Tcp, 80);
    cluster.apply([]);
    // Connection tracking begins with the first script.
    let mut connection = connections::open(cluster.network.pod(C), B, 80).unwrap();
    cluster.apply([json!({"policyTypes": ["Ingress", "Egress"]})]);
    assert!(connections::echoes(&mut connection));
    assert!(!cluster.connects(C, B, Protocol::Tcp, 80));
}
