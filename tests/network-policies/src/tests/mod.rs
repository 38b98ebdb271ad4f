//! Tests of rulesets.

mod enforcing;
mod equivalence;
mod interpreter;
mod reference;
mod scripts;

use k8s_openapi::{
    api::{
        core::v1::{Namespace, Pod},
        networking::v1::NetworkPolicy,
    },
    serde::de::DeserializeOwned,
};
use serde_json::{Value, json};

/// The objects of a cluster.
#[derive(Clone, Debug, Default)]
struct Cluster {
    pods: Vec<Pod>,
    namespaces: Vec<Namespace>,
    policies: Vec<NetworkPolicy>,
}

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn namespace(name: &str, labels: Value) -> Namespace {
    object(json!({"metadata": {"name": name, "labels": labels}}))
}

/// Returns a running Pod on node `n1` with the ports `web` (TCP 80) and `dns` (UDP 53).
fn pod(namespace: &str, name: &str, address: &str, labels: Value) -> Pod {
    object(json!({
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "main", "ports": [
                {"name": "web", "containerPort": 80},
                {"name": "dns", "containerPort": 53, "protocol": "UDP"},
            ]}],
        },
        "status": {"phase": "Running", "podIP": address},
    }))
}

fn policy(namespace: &str, name: &str, spec: Value) -> NetworkPolicy {
    object(json!({"metadata": {"namespace": namespace, "name": name}, "spec": spec}))
}
