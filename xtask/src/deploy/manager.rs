//! `deploy/manager`: the Deployment, and what belongs to it.

use anyhow::Result;
use operator_runtime::certificates::METRICS_SERVICE;
use serde_json::{Value, json};

use super::{COMMAND, IMAGE, Ports};
use crate::{
    generate::Generated,
    rbac::{ACCOUNT, NAMESPACE},
};

/// The name of the Deployment and of what belongs to it.
const NAME: &str = "ensemble-manager";
/// Whom the image runs as.
const USER: u32 = 65532;
/// Namespaces cannot be made while nobody answers for their Tenants, so the manager comes before ordinary pods.
const PRIORITY: &str = "system-cluster-critical";

pub(super) fn files() -> Result<Vec<Generated>> {
    let ports = Ports::of_manager()?;
    let objects = [
        ("deployment", deployment(ports)),
        ("disruption-budget", disruption_budget()),
        ("metrics-service", metrics_service(ports)),
        ("network-policy", network_policy(ports)),
        ("priority-quota", priority_quota()),
    ];
    objects
        .iter()
        .map(|(name, object)| {
            Generated::manifest(format!("{name}.yaml"), COMMAND, std::slice::from_ref(object))
        })
        .collect()
}

pub(super) fn metadata(name: &str, component: &str) -> Value {
    json!({ "name": name, "namespace": NAMESPACE, "labels": labels(component) })
}

/// Without `managed-by`: these are not the controllers' children.
pub(super) fn labels(component: &str) -> Value {
    json!({
        "app.kubernetes.io/name": "ensemble",
        "app.kubernetes.io/instance": "ensemble",
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/part-of": "ensemble",
    })
}

/// The pods of this Deployment.
fn selector() -> Value {
    json!({ "matchLabels": {
        "app.kubernetes.io/name": "ensemble",
        "app.kubernetes.io/instance": "ensemble",
        "app.kubernetes.io/component": "manager",
    } })
}

fn deployment(ports: Ports) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(NAME, "manager"),
        "spec": {
            "replicas": 2,
            "revisionHistoryLimit": 3,
            "selector": selector(),
            // The old ones answer admission until the new ones do.
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } },
            "template": {
                "metadata": {
                    "labels": labels("manager"),
                    "annotations": { "kubectl.kubernetes.io/default-container": "manager" },
                },
                "spec": pod(ports),
            },
        },
    })
}

fn pod(ports: Ports) -> Value {
    let selector = selector();
    json!({
        "serviceAccountName": ACCOUNT,
        "automountServiceAccountToken": true,
        "enableServiceLinks": false,
        "priorityClassName": PRIORITY,
        "securityContext": pod_security(),
        "affinity": { "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 100,
            "podAffinityTerm": { "topologyKey": "kubernetes.io/hostname", "labelSelector": selector },
        }] } },
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": selector,
        }],
        "containers": [container(ports)],
    })
}

fn container(ports: Ports) -> Value {
    let probe = |path: &str, period: u8, failures: u8| {
        json!({
            "httpGet": { "path": path, "port": "probes" },
            "periodSeconds": period, "timeoutSeconds": 5, "failureThreshold": failures,
        })
    };
    json!({
        "name": "manager",
        "image": IMAGE,
        "args": ["--controllers=*"],
        "env": environment(),
        "ports": [
            { "name": "probes", "containerPort": ports.probes },
            { "name": "webhook", "containerPort": ports.webhook },
            { "name": "metrics", "containerPort": ports.metrics },
        ],
        "startupProbe": probe("/healthz", 1, 60),
        "livenessProbe": probe("/healthz", 10, 3),
        "readinessProbe": probe("/readyz", 2, 3),
        // It goes on answering until the API server has heard that it is leaving.
        "lifecycle": { "preStop": { "sleep": { "seconds": 3 } } },
        "resources": resources(),
        "securityContext": container_security(),
    })
}

/// What the manager is told of its pod.
pub(super) fn environment() -> Value {
    let field =
        |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
    json!([field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace")])
}

/// docs/performance.md: 20 MiB idle, 81 MiB with 10,000 pods.
pub(super) fn resources() -> Value {
    json!({ "requests": { "cpu": "10m", "memory": "32Mi" }, "limits": { "memory": "256Mi" } })
}

/// With [`container_security`], what the restricted Pod Security Standard asks, and no writing to the image.
pub(super) fn pod_security() -> Value {
    json!({
        "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER,
        "seccompProfile": { "type": "RuntimeDefault" },
    })
}

pub(super) fn container_security() -> Value {
    json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
        "capabilities": { "drop": ["ALL"] },
    })
}

fn disruption_budget() -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata(NAME, "manager"),
        "spec": {
            "maxUnavailable": 1,
            "selector": selector(),
            // One that is not ready does not keep a node from being drained.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    })
}

/// Every replica has numbers of its own, so each is scraped, and no address for all of them is needed. Those that are not
/// ready are scraped too: their numbers say why.
fn metrics_service(ports: Ports) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata(METRICS_SERVICE, "metrics"),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": true,
            "selector": selector_of_all(),
            "ports": [{ "name": "https", "port": ports.metrics, "targetPort": ports.metrics }],
        },
    })
}

/// The API server comes from an address that nobody can name beforehand, and Prometheus from anywhere; both have to say
/// who they are. What the manager calls (the API server, DNS, whatever hooks name) is not restricted. Probes come from
/// the node, which policies let through.
fn network_policy(ports: Ports) -> Value {
    let port = |port: u16| json!({ "protocol": "TCP", "port": port });
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata(NAME, "manager"),
        "spec": {
            "podSelector": { "matchLabels": selector_of_all() },
            "policyTypes": ["Ingress"],
            "ingress": [{ "ports": [port(ports.webhook), port(ports.metrics)] }],
        },
    })
}

/// Some clusters take pods of this priority only where a quota of the namespace allows them.
fn priority_quota() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata(NAME, "manager"),
        "spec": {
            "hard": { "pods": "100" },
            "scopeSelector": { "matchExpressions": [{
                "scopeName": "PriorityClass", "operator": "In", "values": [PRIORITY],
            }] },
        },
    })
}

/// Managers, however many Deployments run them.
fn selector_of_all() -> Value {
    json!({ "app.kubernetes.io/name": "ensemble", "app.kubernetes.io/component": "manager" })
}
