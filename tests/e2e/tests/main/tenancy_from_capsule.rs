//! A cluster as Capsule leaves it, taken over as docs/tenants/coming-from-capsule.md says, and given back.

use cluster::wait::eventually;
use serde_json::{Value, json};

use crate::support::{PATIENCE, Stage, Webhooks, path};

const NAMESPACE: &str = "oil-production";
/// What owners get, made by Capsule itself.
const ROLES: [&str; 2] = ["capsule-namespace-provisioner", "capsule-namespace-deleter"];
const INSIDE: &str = "--namespace=oil-production";

/// The definition as the chart brings it: two versions, converted by Capsule's own Service.
fn definition() -> Value {
    let version = |name: &str, is_stored: bool| {
        let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        json!({
            "name": name, "served": true, "storage": is_stored, "subresources": { "status": {} },
            "schema": { "openAPIV3Schema": {
                "type": "object", "properties": { "spec": open, "status": open },
            } },
        })
    };
    let client = json!({ "service": { "name": "capsule-webhook-service", "namespace": "capsule-system", "path": "/convert" } });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "tenants.capsule.clastix.io" },
        "spec": {
            "group": "capsule.clastix.io", "scope": "Cluster",
            "names": { "kind": "Tenant", "listKind": "TenantList", "plural": "tenants", "singular": "tenant", "shortNames": ["tnt"] },
            "versions": [version("v1beta1", false), version("v1beta2", true)],
            "conversion": { "strategy": "Webhook", "webhook": {
                "clientConfig": client, "conversionReviewVersions": ["v1beta1", "v1beta2"],
            } },
        },
    })
}

/// What stands in front of namespaces, and now answers no more.
fn guard() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": "capsule-dynamic-webhook" },
        "webhooks": [{
            "name": "namespaces.projectcapsule.dev", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Fail",
            "clientConfig": { "service": { "name": "capsule-webhook-service", "namespace": "capsule-system", "path": "/namespaces" } },
            "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "DELETE"], "resources": ["namespaces"] }],
        }],
    })
}

fn tenant() -> Value {
    json!({
        "apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant",
        "metadata": { "name": "oil", "finalizers": ["controller.projectcapsule.dev/finalize"] },
        "spec": {
            "owners": [{ "kind": "User", "name": "alice", "clusterRoles": ["admin", "capsule-namespace-deleter"] }],
            "namespaceOptions": { "quota": 3 },
            "limitRanges": { "items": [{ "limits": [{ "type": "Pod", "max": { "cpu": "1" } }] }] },
            "resourceQuotas": { "scope": "Tenant", "items": [{ "hard": { "pods": "10" } }] },
            "networkPolicies": { "items": [{ "podSelector": {}, "policyTypes": ["Ingress"] }] },
        },
    })
}

/// An object in the Tenant's namespace.
fn child(api_version: &str, kind: &str, type_label: &str, uid: &Value, spec: Value) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {
            "name": "capsule-oil-0", "namespace": NAMESPACE,
            "labels": {
                "projectcapsule.dev/managed-by": "controller", "projectcapsule.dev/tenant": "oil",
                (format!("capsule.clastix.io/{type_label}")): "0",
            },
            "ownerReferences": [{
                "apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant", "name": "oil", "uid": uid,
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": spec,
    })
}

impl Stage {
    async fn as_helm(&self, object: Value) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), object.to_string()).unwrap();
        let manifest = file.path().to_str().unwrap();
        let helm = ["apply", "--server-side", "--force-conflicts", "--field-manager=helm", "-f", manifest];
        self.kubectl(&helm).await.unwrap();
    }

    /// All that Capsule has made for a Tenant with one namespace.
    async fn lived_with_capsule(&self) {
        self.as_helm(definition()).await;
        let established = ["wait", "--for=condition=Established", "crd/tenants.capsule.clastix.io"];
        self.kubectl(&established).await.unwrap();
        self.cluster.apply_yaml(&tenant().to_string()).await.unwrap();
        self.join("oil", NAMESPACE).await;
        let uid = self.read(&["get", "tenant", "oil"]).await["metadata"]["uid"].clone();
        let range = json!({ "limits": [{ "type": "Pod", "max": { "cpu": "1" } }] });
        let policy = json!({ "podSelector": {}, "policyTypes": ["Ingress"] });
        for object in [
            child("v1", "LimitRange", "limit-range", &uid, range),
            child("v1", "ResourceQuota", "resource-quota", &uid, json!({ "hard": { "pods": "10" } })),
            child("networking.k8s.io/v1", "NetworkPolicy", "network-policy", &uid, policy),
        ] {
            self.cluster.apply_yaml(&object.to_string()).await.unwrap();
        }
        for role in ROLES {
            let create = ["create", "clusterrole", role, "--verb=create", "--resource=namespaces"];
            self.kubectl(&create).await.unwrap();
            let label = ["label", "clusterrole", role, "projectcapsule.dev/created-by=rbac-controller"];
            self.kubectl(&label).await.unwrap();
        }
        self.as_helm(guard()).await;
    }

    async fn uids(&self) -> Vec<Value> {
        let mut uids = vec![self.read(&["get", "namespace", NAMESPACE]).await["metadata"]["uid"].clone()];
        for kind in ["limitrange", "resourcequota", "networkpolicy"] {
            uids.push(self.read(&["get", kind, "capsule-oil-0", INSIDE]).await["metadata"]["uid"].clone());
        }
        uids
    }
}

#[tokio::test]
async fn a_cluster_moves_over_from_capsule_and_back() {
    let (stage, webhooks) = (Stage::bare().await, Webhooks::new());
    stage.lived_with_capsule().await;
    let before = stage.uids().await;

    // Over: Capsule's webhooks go, the definitions are replaced, the manager starts.
    stage.kubectl(&["delete", "validatingwebhookconfiguration", "capsule-dynamic-webhook"]).await.unwrap();
    let apply = ["apply", "--server-side", "--force-conflicts", "-f"];
    stage.kubectl(&[&apply[..], &[&path("deploy/crds")]].concat()).await.unwrap();
    stage.kubectl(&["wait", "--for=condition=Established", "-f", &path("deploy/crds")]).await.unwrap();
    let configuration = path("crates/tenant/tests/fixtures/chart-configuration.yaml");
    stage.kubectl(&["apply", "--server-side", "--field-manager=helm", "-f", &configuration]).await.unwrap();
    stage.permit().await;
    let manager = stage.start_with_webhooks("manager", webhooks, &[]);
    manager.until_readyz(200, "ok").await;
    stage.configure(webhooks).await;
    stage.until_joined("oil", 1).await;

    // The same objects, now kept by us, and nothing beside them.
    stage.until_count(&["rolebindings", INSIDE], 2).await;
    assert_eq!(stage.uids().await, before);
    for kind in ["limitranges", "resourcequotas", "networkpolicies"] {
        let all = stage.read(&["get", kind, INSIDE]).await;
        let all = all["items"].as_array().unwrap();
        assert_eq!(all.len(), 1, "{kind}");
        assert_eq!(all[0]["metadata"]["labels"]["app.kubernetes.io/managed-by"], "ensemble");
        assert_eq!(all[0]["metadata"]["labels"]["projectcapsule.dev/managed-by"], "controller");
    }
    let bindings = stage.names(&["rolebindings", INSIDE]).await;
    assert!(bindings.iter().all(|name| name.starts_with("capsule:managed:")), "{bindings:?}");
    for condition in ["Ready", "FieldsEnforced"] {
        let condition = format!("--for=condition={condition}");
        stage.kubectl(&["wait", &condition, "capsuleconfiguration/default", "--timeout=60s"]).await.unwrap();
    }
    let create =
        ["create", "namespace", "oil-new", "--as=alice", "--as-group=projectcapsule.dev", "--dry-run=server"];
    eventually("alice to go on", PATIENCE, async || stage.kubectl(&create).await.map(|_| true))
        .await
        .unwrap();
    eventually("the older version to be read", PATIENCE, async || {
        Ok(stage.kubectl(&["get", "tenants.v1beta1.capsule.clastix.io", "oil"]).await.is_ok())
    })
    .await
    .unwrap();
    stage.assert_nothing_was_forbidden();
    manager.ask_to_end().await;

    // And back: our webhooks go, Capsule's definition is replaced in turn. All that it knows is as it was.
    stage.kubectl(&["delete", "-f", &path("deploy/webhooks"), "--ignore-not-found"]).await.unwrap();
    // (Where the manager is deployed it is by Service, not by URL as on this machine.)
    let config = json!({ "url": null, "service": definition()["spec"]["conversion"]["webhook"]["clientConfig"]["service"] });
    let patch = json!({ "spec": { "conversion": { "webhook": { "clientConfig": config } } } }).to_string();
    stage
        .kubectl(&["patch", "crd", "tenants.capsule.clastix.io", "--type=merge", "-p", &patch])
        .await
        .unwrap();
    stage.as_helm(definition()).await;
    let back = stage.read(&["get", "tenant", "oil"]).await;
    assert_eq!(back["spec"]["owners"], tenant()["spec"]["owners"]);
    assert_eq!(back["spec"]["resourceQuotas"], tenant()["spec"]["resourceQuotas"]);
    assert_eq!(back["metadata"]["finalizers"], tenant()["metadata"]["finalizers"]);
    assert_eq!(stage.uids().await, before);
    let definition = stage.read(&["get", "crd", "tenants.capsule.clastix.io"]).await;
    let service = &definition["spec"]["conversion"]["webhook"]["clientConfig"]["service"];
    assert_eq!(service["name"], "capsule-webhook-service");
}
