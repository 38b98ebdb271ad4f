//! `deploy/manager`: the Deployment of the manager, its Service, and its policies.

use anyhow::Result;
use operator_runtime::certificates::METRICS_SERVICE;
use serde_json::{Value, json};

use super::{
    COMMAND, IMAGE,
    objects::{container, deployment, disruption_budget, labels, metadata, network_policy, pod, selector},
};
use crate::{generate::Generated, ports::Ports, rbac::ACCOUNT};

/// Name of the Deployment and of its policies.
const NAME: &str = "ensemble-manager";
const COMPONENT: &str = "manager";
/// Priority class. Without a manager, namespaces of Tenants cannot be created, so it precedes
/// ordinary Pods.
const PRIORITY: &str = "system-cluster-critical";

pub(super) fn files() -> Result<Vec<Generated>> {
    let ports = Ports::of_manager()?;
    let pod_metadata = json!({
        "labels": labels(COMPONENT),
        "annotations": { "kubectl.kubernetes.io/default-container": "manager" },
    });
    let objects = [
        ("deployment", deployment(NAME, COMPONENT, pod_metadata, manager_pod(ports))),
        ("disruption-budget", disruption_budget(NAME, COMPONENT)),
        ("metrics-service", metrics_service(ports)),
        // The addresses of the API server and of Prometheus are not known in advance, and both authenticate.
        // Egress to the API server, DNS, and hooks is not restricted.
        (
            "network-policy",
            network_policy(NAME, COMPONENT, selector_of_all(), [ports.webhook, ports.metrics]),
        ),
        ("priority-quota", priority_quota()),
    ];
    objects
        .iter()
        .map(|(name, object)| {
            Generated::manifest(format!("{name}.yaml"), COMMAND, std::slice::from_ref(object))
        })
        .collect()
}

fn manager_pod(ports: Ports) -> Value {
    let container = container(
        "manager",
        json!({
            "args": ["--controllers=*"],
            "env": with_instance_image(environment()),
            "ports": [
                { "name": "probes", "containerPort": ports.probes },
                { "name": "webhook", "containerPort": ports.webhook },
                { "name": "metrics", "containerPort": ports.metrics },
            ],
        }),
    );
    let others = json!({
        "priorityClassName": PRIORITY,
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": selector(COMPONENT),
        }],
    });
    pod(ACCOUNT, COMPONENT, container, others)
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

/// Returns the ResourceQuota that some clusters require for Pods of this priority class.
fn priority_quota() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata(NAME, COMPONENT),
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
