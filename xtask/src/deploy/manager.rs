//! `deploy/manager`: the Deployment of the manager, its Service, and its policies.

use anyhow::Result;
use operator_runtime::certificates::METRICS_SERVICE;
use serde_json::{Value, json};

use super::{COMMAND, IMAGE};
use crate::{
    generate::Generated,
    ports::Ports,
    rbac::{ACCOUNT, NAMESPACE},
};

/// Name of the Deployment and of its policies.
const NAME: &str = "ensemble-manager";
/// User and group of the image.
const USER: u32 = 65532;
/// Priority class. Without a manager, namespaces of Tenants cannot be created, so it precedes
/// ordinary Pods.
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

/// Returns the labels of an object, without `managed-by`, which only children of controllers have.
pub(super) fn labels(component: &str) -> Value {
    json!({
        "app.kubernetes.io/name": "ensemble",
        "app.kubernetes.io/instance": "ensemble",
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/part-of": "ensemble",
    })
}

/// Returns the selector of this Deployment's Pods.
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
            // The old Pods serve admission reviews until the new Pods are ready.
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
        "env": with_instance_image(environment()),
        "ports": [
            { "name": "probes", "containerPort": ports.probes },
            { "name": "webhook", "containerPort": ports.webhook },
            { "name": "metrics", "containerPort": ports.metrics },
        ],
        "startupProbe": probe("/healthz", 1, 60),
        "livenessProbe": probe("/healthz", 10, 3),
        "readinessProbe": probe("/readyz", 2, 3),
        // Serves requests until the API server observes that the endpoint is terminating.
        "lifecycle": { "preStop": { "sleep": { "seconds": 3 } } },
        "resources": resources(),
        "securityContext": container_security(),
    })
}

/// Adds the image with the instance manager of PostgreSQL: the manager's own.
fn with_instance_image(mut environment: Vec<Value>) -> Vec<Value> {
    environment.push(json!({ "name": postgres::INSTANCE_IMAGE.env, "value": IMAGE }));
    environment
}

/// Returns the environment variables from the Pod's metadata.
pub(super) fn environment() -> Vec<Value> {
    let field =
        |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
    vec![field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace")]
}

/// Returns the resource requirements. The manager uses 20 MiB idle, and 81 MiB with 10,000 Pods
/// (docs/performance.md).
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

fn disruption_budget() -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata(NAME, "manager"),
        "spec": {
            "maxUnavailable": 1,
            "selector": selector(),
            // A Pod that is not ready does not block the drain of its node.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    })
}

/// Returns the headless Service of the metrics.
///
/// Each replica has its own metrics and is scraped separately. Replicas that are not ready are
/// scraped too, because their metrics show the cause.
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

/// Returns the NetworkPolicy, which allows webhook and metrics requests from any address.
///
/// The addresses of the API server and of Prometheus are not known in advance, and both
/// authenticate. Egress to the API server, DNS, and hooks is not restricted. Probes come from the
/// node, which policies always allow.
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

/// Returns the ResourceQuota that some clusters require for Pods of this priority class.
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

/// Returns the labels of all managers, including those of other Deployments.
fn selector_of_all() -> Value {
    json!({ "app.kubernetes.io/name": "ensemble", "app.kubernetes.io/component": "manager" })
}
