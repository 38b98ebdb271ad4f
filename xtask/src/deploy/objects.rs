//! What the Deployments of the manager and of the proxy have in common.

use serde_json::{Map, Value, json};

use super::IMAGE;
use crate::rbac::NAMESPACE;

/// User and group of the image.
const USER: u32 = 65532;

pub(super) fn metadata(name: &str, component: &str) -> Value {
    json!({ "name": name, "namespace": NAMESPACE, "labels": labels(component) })
}

/// Returns the labels of an object, without `managed-by`, which only children of controllers have.
pub(super) fn labels(component: &str) -> Value {
    json!({
        "app.kubernetes.io/name": "ensemble",
        "app.kubernetes.io/instance": "ensemble",
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/part-of": "ensemble",
    })
}

/// Returns the labels that select the Pods of a Deployment.
pub(super) fn selected(component: &str) -> Value {
    json!({
        "app.kubernetes.io/name": "ensemble",
        "app.kubernetes.io/instance": "ensemble",
        "app.kubernetes.io/component": component,
    })
}

/// Returns the selector of the Pods of a Deployment.
pub(super) fn selector(component: &str) -> Value {
    json!({ "matchLabels": selected(component) })
}

/// Returns a Deployment of two replicas. `metadata` is that of its Pods.
pub(super) fn deployment(name: &str, component: &str, pod_metadata: Value, pod: Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(name, component),
        "spec": {
            "replicas": 2,
            "revisionHistoryLimit": 3,
            "selector": selector(component),
            // The old Pods serve requests until the new Pods are ready.
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } },
            "template": { "metadata": pod_metadata, "spec": pod },
        },
    })
}

/// Returns a Pod with one container, with these fields beside those that both programs have. The Pods of a
/// Deployment prefer different nodes.
pub(super) fn pod(account: &str, component: &str, container: Value, others: Value) -> Value {
    let common = json!({
        "serviceAccountName": account,
        "automountServiceAccountToken": true,
        "enableServiceLinks": false,
        "securityContext": pod_security(),
        "affinity": { "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 100,
            "podAffinityTerm": { "topologyKey": "kubernetes.io/hostname", "labelSelector": selector(component) },
        }] } },
        "containers": [container],
    });
    merged(common, others)
}

/// Returns the container of a program that serves probes, with these fields beside those that both programs
/// have.
pub(super) fn container(name: &str, others: Value) -> Value {
    let probe = |path: &str, period: u8, failures: u8| {
        json!({
            "httpGet": { "path": path, "port": "probes" },
            "periodSeconds": period, "timeoutSeconds": 5, "failureThreshold": failures,
        })
    };
    let common = json!({
        "name": name,
        "image": IMAGE,
        "startupProbe": probe("/healthz", 1, 60),
        "livenessProbe": probe("/healthz", 10, 3),
        "readinessProbe": probe("/readyz", 2, 3),
        // Serves requests until clients observe that the endpoint is terminating.
        "lifecycle": { "preStop": { "sleep": { "seconds": 3 } } },
        "resources": resources(),
        "securityContext": container_security(),
    });
    merged(common, others)
}

fn merged(common: Value, others: Value) -> Value {
    let fields = [common, others].into_iter().filter_map(|value| match value {
        Value::Object(fields) => Some(fields),
        _ => None,
    });
    Value::Object(fields.flatten().collect::<Map<_, _>>())
}

/// Returns the resource requirements. The manager uses 20 MiB idle, and 81 MiB with 10,000 Pods; the proxy
/// uses less (docs/performance.md).
pub(super) fn resources() -> Value {
    json!({ "requests": { "cpu": "10m", "memory": "32Mi" }, "limits": { "memory": "256Mi" } })
}

/// Returns the Pod's security context.
///
/// With [`container_security`], it satisfies the restricted Pod Security Standard.
pub(super) fn pod_security() -> Value {
    json!({
        "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER,
        "seccompProfile": { "type": "RuntimeDefault" },
    })
}

/// Returns the container's security context, with a read-only root file system.
pub(super) fn container_security() -> Value {
    json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
        "capabilities": { "drop": ["ALL"] },
    })
}

pub(super) fn disruption_budget(name: &str, component: &str) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata(name, component),
        "spec": {
            "maxUnavailable": 1,
            "selector": selector(component),
            // A Pod that is not ready does not block the drain of its node.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    })
}

/// Returns a NetworkPolicy that allows requests to these ports from any address. Probes come from the node,
/// which policies always allow.
pub(super) fn network_policy(name: &str, component: &str, selected: Value, ports: [u16; 2]) -> Value {
    let ports = ports.map(|port| json!({ "protocol": "TCP", "port": port }));
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata(name, component),
        "spec": {
            "podSelector": { "matchLabels": selected },
            "policyTypes": ["Ingress"],
            "ingress": [{ "ports": ports }],
        },
    })
}
