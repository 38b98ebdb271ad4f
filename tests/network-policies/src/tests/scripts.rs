//! Scripts for single policies.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{Cluster, namespace, object, pod, policy};

/// Returns a cluster with two Pods in `shop`, one in `tools`, and one policy in `shop`.
fn cluster(spec: Value) -> Cluster {
    Cluster {
        pods: vec![
            pod("shop", "web", "10.0.0.2", json!({"app": "web"})),
            pod("shop", "db", "10.0.0.3", json!({"app": "db"})),
            pod("tools", "probe", "10.0.0.4", json!({"app": "probe"})),
        ],
        namespaces: vec![namespace("shop", json!({})), namespace("tools", json!({"team": "ops"}))],
        policies: vec![policy("shop", "policy", spec)],
    }
}

fn script(cluster: &Cluster) -> String {
    crate::ruleset("n1", &cluster.pods, &cluster.namespaces, &cluster.policies)
}

/// Returns the rules of the chains of Pods, without indentation.
fn rules(cluster: &Cluster) -> Vec<String> {
    let script = script(cluster);
    let lines = script.lines().skip(3).take_while(|line| !line.contains("chain forward"));
    lines.map(|line| line.trim().to_owned()).filter(|line| line != "}" && line != "counter drop").collect()
}

#[test]
fn a_script_replaces_the_table() {
    let cluster = cluster(json!({
        "podSelector": {"matchLabels": {"app": "db"}},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{
            "from": [
                {"podSelector": {"matchLabels": {"app": "web"}}},
                {"namespaceSelector": {"matchLabels": {"team": "ops"}}},
                {"ipBlock": {"cidr": "192.168.0.0/16", "except": ["192.168.1.0/24", "192.168.1.8/32"]}},
            ],
            "ports": [{"port": 5432}, {"port": 8000, "endPort": 8080}],
        }],
        "egress": [{"ports": [{"port": 53, "protocol": "UDP"}, {"protocol": "SCTP"}]}],
    }));
    insta::assert_snapshot!(script(&cluster), @r"
    table ip network-policies
    delete table ip network-policies
    table ip network-policies {
      chain egress-10.0.0.3 { # shop/db
        meta l4proto sctp return
        udp dport 53 return
        ip daddr { 10.0.0.3 } return
        counter drop
      }
      chain ingress-10.0.0.3 { # shop/db
        ip saddr { 10.0.0.2, 10.0.0.4 } tcp dport 5432 return
        ip saddr { 10.0.0.2, 10.0.0.4 } tcp dport 8000-8080 return
        ip saddr { 10.0.0.3 } return
        ip saddr 192.168.0.0/16 ip saddr != { 192.168.1.0/24 } tcp dport 5432 return
        ip saddr 192.168.0.0/16 ip saddr != { 192.168.1.0/24 } tcp dport 8000-8080 return
        counter drop
      }
      chain forward {
        type filter hook forward priority 10; policy accept;
        ct state established,related accept
        ip saddr vmap {
          10.0.0.3 : jump egress-10.0.0.3,
        }
        ip daddr vmap {
          10.0.0.3 : jump ingress-10.0.0.3,
        }
      }
    }
    ");
}

#[test]
fn pods_that_no_policy_selects_have_no_chains() {
    insta::assert_snapshot!(script(&cluster(json!({"podSelector": {"matchLabels": {"app": "none"}}}))), @r"
    table ip network-policies
    delete table ip network-policies
    table ip network-policies {
      chain forward {
        type filter hook forward priority 10; policy accept;
        ct state established,related accept
      }
    }
    ");
}

#[test]
fn a_policy_without_rules_allows_only_the_pod_itself() {
    let cluster = cluster(json!({"podSelector": {"matchLabels": {"app": "db"}}}));
    assert_eq!(rules(&cluster), ["chain ingress-10.0.0.3 { # shop/db", "ip saddr { 10.0.0.3 } return"]);
}

#[test]
fn named_ports_of_ingress_are_those_of_the_selected_pod() {
    let mut cluster = cluster(json!({"ingress": [{"ports": [{"port": "web"}, {"port": "dns"}]}]}));
    cluster.pods[1].spec.as_mut().unwrap().containers[0].ports.as_mut().unwrap()[0].container_port = 8080;
    assert_eq!(
        rules(&cluster),
        [
            "chain ingress-10.0.0.2 { # shop/web",
            "tcp dport 80 return",
            "ip saddr { 10.0.0.2 } return",
            "chain ingress-10.0.0.3 { # shop/db",
            "tcp dport 8080 return",
            "ip saddr { 10.0.0.3 } return",
        ]
    );
}

#[test]
fn named_ports_of_egress_are_those_of_the_destination() {
    let mut cluster = cluster(json!({
        "podSelector": {"matchLabels": {"app": "web"}},
        "policyTypes": ["Egress"],
        "egress": [{"ports": [{"port": "web"}]}],
    }));
    cluster.pods[1].spec.as_mut().unwrap().containers[0].ports.as_mut().unwrap()[0].container_port = 8080;
    assert_eq!(
        rules(&cluster),
        [
            "chain egress-10.0.0.2 { # shop/web",
            "ip daddr { 10.0.0.2 } return",
            "ip daddr { 10.0.0.2, 10.0.0.4 } tcp dport 80 return",
            "ip daddr { 10.0.0.3 } tcp dport 8080 return",
        ]
    );
}

#[test]
fn sidecars_have_named_ports() {
    let mut cluster = cluster(json!({
        "podSelector": {"matchLabels": {"app": "db"}},
        "ingress": [{"ports": [{"port": "metrics"}, {"port": "setup"}]}],
    }));
    let container = |name: &str, port: i32, policy: Value| json!({"name": name, "restartPolicy": policy, "ports": [{"name": name, "containerPort": port}]});
    let containers = [container("setup", 1, Value::Null), container("metrics", 9090, json!("Always"))];
    cluster.pods[1].spec.as_mut().unwrap().init_containers = Some(containers.map(object).into());
    assert_eq!(
        rules(&cluster)[1..],
        ["tcp dport 9090 return", "ip saddr { 10.0.0.3 } return"].map(String::from)
    );
}

#[test]
fn invalid_blocks_match_nothing() {
    let blocks = [
        json!({"cidr": "fd00::/8"}),
        json!({"cidr": "10.0.0.0/8", "except": ["fd00::/8"]}),
        json!({"cidr": "10.0.0.0/8", "except": ["0.0.0.0/0"]}),
    ];
    let peers = blocks.map(|block| json!({"ipBlock": block}));
    let cluster =
        cluster(json!({"podSelector": {"matchLabels": {"app": "db"}}, "ingress": [{"from": peers}]}));
    assert_eq!(rules(&cluster)[1..], ["ip saddr { 10.0.0.3 } return".to_owned()]);
}

#[test]
fn a_block_of_everything_can_have_exceptions() {
    let peer = |except: Value| json!({"from": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": except}}]});
    let rules_for = |except| {
        let spec = json!({"podSelector": {"matchLabels": {"app": "db"}}, "ingress": [peer(except)]});
        rules(&cluster(spec))[2].clone()
    };
    assert_eq!(rules_for(json!(["10.0.0.0/8"])), "ip saddr != { 10.0.0.0/8 } return");
    assert_eq!(rules_for(json!([])), "return");
}

#[test]
fn the_newest_pod_has_an_address_that_several_claim() {
    let pod = |name: &str, created: &str, deleted: Value| -> Pod {
        let mut pod = pod("shop", name, "10.0.0.2", json!({}));
        pod.metadata.creation_timestamp = Some(object(json!(created)));
        pod.metadata.deletion_timestamp = object(deleted);
        pod
    };
    let mut cluster = cluster(json!({}));
    cluster.pods = vec![
        pod("old", "2026-01-01T00:00:00Z", Value::Null),
        pod("new", "2026-01-03T00:00:00Z", Value::Null),
        pod("deleted", "2026-01-04T00:00:00Z", json!("2026-01-05T00:00:00Z")),
        pod("older", "2026-01-02T00:00:00Z", Value::Null),
    ];
    assert_eq!(rules(&cluster)[0], "chain ingress-10.0.0.2 { # shop/new");
}

#[test]
fn the_ipv4_address_of_a_dual_stack_pod_is_used() {
    let mut cluster = cluster(json!({"podSelector": {"matchLabels": {"app": "db"}}}));
    let status = cluster.pods[1].status.as_mut().unwrap();
    status.pod_ip = Some("fd00::3".into());
    status.pod_ips = Some(["fd00::3", "10.0.0.3"].map(|ip| object(json!({"ip": ip}))).into());
    assert_eq!(rules(&cluster)[0], "chain ingress-10.0.0.3 { # shop/db");
}

#[test]
fn pods_on_other_nodes_have_no_chains() {
    let cluster = cluster(json!({}));
    let script = crate::ruleset("n2", &cluster.pods, &cluster.namespaces, &cluster.policies);
    assert!(!script.contains("10.0.0."), "{script}");
}
