//! The part of the Gateway API that the Tenant controller knows.

use serde_json::{Value, json};

use super::TestEnv;

/// Returns a definition with the few fields of the Gateway API that admission depends on.
fn definition(kind: &str, plural: &str, scope: &str, spec: Value) -> Value {
    let group = "gateway.networking.k8s.io";
    let object = json!({ "type": "object", "properties": { "spec": spec }, "required": ["spec"] });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{group}"),
            "annotations": { "api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api" },
        },
        "spec": {
            "group": group, "scope": scope,
            "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": object },
            }],
        },
    })
}

impl TestEnv {
    /// Installs GatewayClasses and Gateways.
    pub(crate) async fn install_gateway_api(&self) {
        let class = json!({ "type": "object", "properties": { "controllerName": { "type": "string" } } });
        let gateway = json!({
            "type": "object", "required": ["gatewayClassName"],
            "properties": {
                "gatewayClassName": { "type": "string", "minLength": 1 },
                "listeners": { "type": "array", "items": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            },
        });
        for definition in [
            definition("GatewayClass", "gatewayclasses", "Cluster", class),
            definition("Gateway", "gateways", "Namespaced", gateway),
        ] {
            let name = format!("crd/{}", definition["metadata"]["name"].as_str().unwrap());
            self.store(definition).await;
            self.kubectl(&["wait", "--for=condition=Established", &name]).await.unwrap();
        }
    }
}
