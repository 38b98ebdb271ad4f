//! `deploy/proxy`: the proxy of Tenants, with its own ServiceAccount, rights, Service, and policies.

use anyhow::Result;
use operator_core::manifests::Grant;
use serde_json::{Value, json};
use tenant_proxy::{rbac, view::ViewKind};

use super::{
    COMMAND,
    objects::{container, deployment, disruption_budget, labels, metadata, network_policy, pod, selected},
};
use crate::{
    generate::{Generated, document},
    ports::ProxyPorts,
    rbac::NAMESPACE,
};

/// Name of all objects, and of the component.
const NAME: &str = "ensemble-proxy";
const COMPONENT: &str = "proxy";
/// Secret with the serving certificate, of the type `kubernetes.io/tls`.
const TLS_SECRET: &str = "ensemble-proxy-tls";

pub(super) fn files() -> Result<Vec<Generated>> {
    let ports = ProxyPorts::of_proxy()?;
    let grant = Grant::new(COMPONENT, rbac::rules(&ViewKind::ALL.into()));
    let binding = grant.cluster_role_binding(NAMESPACE, NAME);
    let rights = [account(), document(&grant.cluster_role())?, document(&binding)?];
    let objects = [
        ("deployment", deployment(NAME, COMPONENT, json!({ "labels": labels(COMPONENT) }), proxy_pod(ports))),
        ("disruption-budget", disruption_budget(NAME, COMPONENT)),
        // Users and Prometheus connect from anywhere, and authenticate.
        ("network-policy", network_policy(NAME, COMPONENT, selected(COMPONENT), [ports.api, ports.metrics])),
        ("service", service(ports)),
    ];
    let mut files = vec![Generated::manifest("rbac.yaml".to_owned(), COMMAND, &rights)?];
    for (name, object) in objects {
        files.push(Generated::manifest(format!("{name}.yaml"), COMMAND, &[object])?);
    }
    Ok(files)
}

fn account() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(NAME, COMPONENT),
        "automountServiceAccountToken": false,
    })
}

fn proxy_pod(ports: ProxyPorts) -> Value {
    let container = container(
        "proxy",
        json!({
            "command": ["/ensemble-proxy"],
            "ports": [
                { "name": "probes", "containerPort": ports.probes },
                { "name": "api", "containerPort": ports.api },
                { "name": "metrics", "containerPort": ports.metrics },
            ],
            "volumeMounts": [{ "name": "tls", "mountPath": "/tls", "readOnly": true }],
        }),
    );
    let others = json!({
        // Shells go on for the drain timeout of five minutes.
        "terminationGracePeriodSeconds": 340,
        "volumes": [{ "name": "tls", "secret": { "secretName": TLS_SECRET } }],
    });
    pod(NAME, COMPONENT, container, others)
}

fn service(ports: ProxyPorts) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata(NAME, COMPONENT),
        "spec": {
            "selector": selected(COMPONENT),
            "ports": [{ "name": "https", "port": 443, "targetPort": ports.api }],
        },
    })
}
