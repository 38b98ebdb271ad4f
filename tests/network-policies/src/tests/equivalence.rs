//! Compares chains with a direct evaluation of the policies, in random clusters.

use std::net::Ipv4Addr;

use proptest::{
    collection::{btree_map, vec},
    option,
    prelude::*,
    sample::{select, subsequence},
};
use serde_json::{Value, json};

use super::{Cluster, interpreter, object, reference};
use crate::{compile::compile, render::render, tests::reference::Connection};

const NODES: [&str; 2] = ["n1", "n2"];
const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];
const PORTS: [u16; 5] = [79, 80, 81, 82, 443];
const CIDRS: [&str; 7] =
    ["0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/29", "10.0.0.3/31", "10.0.0.4/32", "8.8.0.0/16", "8.8.8.8/32"];

fn labels() -> impl Strategy<Value = Value> {
    btree_map(select(vec!["a", "b"]), select(vec!["1", "2"]), 0..=2).prop_map(|labels| json!(labels))
}

fn requirement() -> impl Strategy<Value = Value> {
    let values = subsequence(vec!["1", "2"], 1..=2);
    let operator = select(vec!["In", "NotIn", "Exists", "DoesNotExist"]);
    (select(vec!["a", "b"]), operator, values).prop_map(|(key, operator, values)| {
        let values = if operator.ends_with("In") { json!(values) } else { Value::Null };
        json!({"key": key, "operator": operator, "values": values})
    })
}

fn selector() -> impl Strategy<Value = Value> {
    (option::of(labels()), option::of(vec(requirement(), 0..=2)))
        .prop_map(|(labels, expressions)| json!({"matchLabels": labels, "matchExpressions": expressions}))
}

fn peer() -> impl Strategy<Value = Value> {
    let block = (select(CIDRS.to_vec()), option::of(vec(select(CIDRS.to_vec()), 0..=3)));
    let block = block.prop_map(|(cidr, except)| json!({"ipBlock": {"cidr": cidr, "except": except}}));
    prop_oneof![
        block,
        selector().prop_map(|pods| json!({"podSelector": pods})),
        selector().prop_map(|namespaces| json!({"namespaceSelector": namespaces})),
        (selector(), selector())
            .prop_map(|(pods, namespaces)| json!({"podSelector": pods, "namespaceSelector": namespaces})),
    ]
}

fn port() -> impl Strategy<Value = Value> {
    let protocol = || option::of(select(PROTOCOLS.to_vec()));
    prop_oneof![
        protocol().prop_map(|protocol| json!({"protocol": protocol})),
        (protocol(), select(vec!["web", "dns"]))
            .prop_map(|(protocol, name)| json!({"protocol": protocol, "port": name})),
        (protocol(), select(PORTS.to_vec()), option::of(0_u16..=2)).prop_map(|(protocol, port, more)| {
            json!({"protocol": protocol, "port": port, "endPort": more.map(|more| port + more)})
        }),
    ]
}

fn rule(peers: &'static str) -> impl Strategy<Value = Value> {
    (option::of(vec(peer(), 0..=2)), option::of(vec(port(), 0..=2)))
        .prop_map(move |(peer, ports)| json!({peers: peer, "ports": ports}))
}

fn spec() -> impl Strategy<Value = Value> {
    let types = option::of(subsequence(vec!["Ingress", "Egress"], 0..=2));
    let ingress = option::of(vec(rule("from"), 0..=2));
    let egress = option::of(vec(rule("to"), 0..=2));
    (option::of(selector()), types, ingress, egress).prop_map(|(selector, types, ingress, egress)| {
        json!({"podSelector": selector, "policyTypes": types, "ingress": ingress, "egress": egress})
    })
}

fn policy() -> impl Strategy<Value = Value> {
    (select(vec!["x", "y"]), spec()).prop_map(
        |(namespace, spec)| json!({"metadata": {"name": "p", "namespace": namespace}, "spec": spec}),
    )
}

fn container_port() -> impl Strategy<Value = Value> {
    (select(vec!["web", "dns"]), select(PORTS.to_vec()), option::of(select(PROTOCOLS.to_vec())))
        .prop_map(|(name, port, protocol)| json!({"name": name, "containerPort": port, "protocol": protocol}))
}

fn pod() -> impl Strategy<Value = Value> {
    let phase = prop_oneof![6 => Just("Running"), 1 => Just("Pending"), 1 => Just("Failed")];
    let place = (select(vec!["x", "y"]), select(NODES.to_vec()), prop::bool::weighted(0.1));
    (place, labels(), vec(container_port(), 0..=3), phase).prop_map(|(place, labels, ports, phase)| {
        let (namespace, node, host_network) = place;
        json!({
            "metadata": {"namespace": namespace, "labels": labels},
            "spec": {
                "nodeName": node,
                "hostNetwork": host_network,
                "containers": [{"name": "main", "ports": ports}],
            },
            "status": {"phase": phase},
        })
    })
}

/// Returns Pods with different names and addresses.
fn pods() -> impl Strategy<Value = Vec<Value>> {
    vec(pod(), 1..=5).prop_map(|mut pods| {
        for (index, pod) in pods.iter_mut().enumerate() {
            pod["metadata"]["name"] = json!(format!("pod-{index}"));
            pod["status"]["podIP"] = json!(format!("10.0.0.{}", index + 2));
        }
        pods
    })
}

fn cluster() -> impl Strategy<Value = Cluster> {
    (pods(), labels(), labels(), vec(policy(), 0..=4)).prop_map(|(pods, x, y, policies)| Cluster {
        pods: pods.into_iter().map(object).collect(),
        namespaces: vec![super::namespace("x", x), super::namespace("y", y)],
        policies: policies.into_iter().map(object).collect(),
    })
}

/// Returns the first packets of connections between all Pods and two other hosts.
fn connections() -> impl Iterator<Item = Connection> {
    let addresses = || {
        (2..=6)
            .map(|host| Ipv4Addr::new(10, 0, 0, host))
            .chain([[8, 8, 8, 8], [8, 8, 4, 4]].map(Ipv4Addr::from))
    };
    let pairs = addresses().flat_map(move |source| addresses().map(move |destination| (source, destination)));
    pairs.flat_map(|(source, destination)| {
        PROTOCOLS
            .iter()
            .flat_map(move |protocol| PORTS.map(|port| Connection { source, destination, protocol, port }))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn chains_and_policies_allow_the_same_connections(cluster in cluster()) {
        let Cluster { pods, namespaces, policies } = &cluster;
        let nodes = NODES.map(|node| compile(node, pods, namespaces, policies));
        for connection in connections() {
            let passes = nodes.iter().all(|chains| interpreter::passes(chains, &connection));
            let allowed = reference::allows(&cluster, &connection);
            prop_assert_eq!(passes, allowed, "{:?}\n{}", connection, nodes.each_ref().map(render).concat());
        }
    }

    #[test]
    fn the_order_of_objects_does_not_matter(cluster in cluster()) {
        let mut reversed = cluster.clone();
        reversed.pods.reverse();
        reversed.namespaces.reverse();
        reversed.policies.reverse();
        for node in NODES {
            let script = |cluster: &Cluster| {
                crate::ruleset(node, &cluster.pods, &cluster.namespaces, &cluster.policies)
            };
            prop_assert_eq!(script(&cluster), script(&reversed));
        }
    }
}
