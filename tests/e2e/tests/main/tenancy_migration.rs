//! Migration from Capsule and back, as described in docs/tenants/coming-from-capsule.md.

use cluster::wait::eventually;
use serde_json::{Value, json};

use crate::support::{PATIENCE, TestEnv, Webhooks, path};

const NAMESPACE: &str = "oil-production";
/// ClusterRoles that Capsule creates for owners.
const ROLES: [&str; 2] = ["capsule-namespace-provisioner", "capsule-namespace-deleter"];
const INSIDE: &str = "--namespace=oil-production";

/// Returns the CRD from Capsule's chart: two versions, converted by Capsule's Service.
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

/// Returns Capsule's webhook for namespaces, whose server no longer runs.
fn namespace_webhook() -> Value {
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

/// Returns a Tenant with a value in every field of Capsule's API.
fn tenant() -> Value {
    let keys = |denied: &str| json!({ "denied": [denied], "deniedRegex": "^internal\\." });
    let classes = |allowed: &str, default: &str| {
        json!({
            "allowed": [allowed], "allowedRegex": "^shared-", "default": default,
            "matchLabels": { "usable": "true" },
        })
    };
    let metadata = json!({ "labels": { "tier": "oil" }, "annotations": { "example.com/cost": "7" } });
    let settings = json!([{ "kind": "StorageClasses", "operations": ["List"] }]);
    json!({
        "apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant",
        "metadata": { "name": "oil", "finalizers": ["controller.projectcapsule.dev/finalize"] },
        "spec": {
            "owners": [{
                "kind": "User", "name": "alice", "clusterRoles": ["admin", "capsule-namespace-deleter"],
                "labels": { "team": "blue" }, "annotations": { "example.com/note": "x" }, "proxySettings": settings,
            }],
            "permissions": { "matchOwners": [{ "matchLabels": { "team": "blue" } }], "allowOwnerPromotion": true },
            "namespaceOptions": {
                "quota": 3, "additionalMetadata": metadata, "additionalMetadataList": [{
                    "namespaceSelector": { "matchLabels": { "stage": "prod" } }, "labels": { "watched": "true" },
                }],
                "forbiddenLabels": keys("secret"), "forbiddenAnnotations": keys("secret"),
                "requiredMetadata": { "labels": { "tier": "^oil$" } }, "managedMetadataOnly": false,
            },
            "storageClasses": classes("fast", "slow"),
            "priorityClasses": { "allowed": ["low"], "matchExpressions": [{ "key": "usable", "operator": "Exists" }] },
            "runtimeClasses": { "allowed": ["gvisor"] },
            "deviceClasses": { "matchLabels": { "usable": "true" } },
            "gatewayOptions": { "allowedClasses": { "allowed": ["shared"], "default": "shared" } },
            "ingressOptions": {
                "allowedClasses": classes("nginx", "nginx"), "hostnameCollisionScope": "Cluster",
                "allowWildcardHostnames": true,
                "allowedHostnames": { "allowed": ["oil.example.com"], "allowedRegex": "^[a-z]+\\.oil\\.example\\.com$" },
            },
            "serviceOptions": {
                "additionalMetadata": metadata,
                "allowedServices": { "nodePort": false, "externalName": false, "loadBalancer": true },
                "externalIPs": { "allowed": ["192.0.2.0/24"] },
                "forbiddenLabels": keys("secret"), "forbiddenAnnotations": keys("secret"),
            },
            "podOptions": { "additionalMetadata": metadata },
            "containerRegistries": { "allowed": ["docker.io"], "allowedRegex": "^quay\\.io$" },
            "imagePullPolicies": ["Always", "IfNotPresent"],
            "nodeSelector": { "kubernetes.io/os": "linux" },
            "additionalRoleBindings": [{
                "clusterRoleName": "view", "labels": { "a": "b" }, "annotations": { "c": "d" },
                "subjects": [{ "kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "auditors" }],
            }],
            "limitRanges": { "items": [{ "limits": [{ "type": "Pod", "max": { "cpu": "1" } }] }] },
            "resourceQuotas": { "scope": "Tenant", "items": [{ "hard": { "pods": "10" } }] },
            "networkPolicies": { "items": [{ "podSelector": {}, "policyTypes": ["Ingress"] }] },
            "forceTenantPrefix": true, "preventDeletion": true, "cordoned": false,
            "data": { "contact": "oil@example.com", "floors": [1, 2] },
            "rules": [{ "namespaceSelector": { "matchLabels": { "stage": "prod" } }, "enforce": { "action": "deny" } }],
        },
    })
}

/// Asserts that all fields of `expected` have the same values. The definition can add defaults.
fn assert_kept(expected: &Value, found: &Value, path: &str) {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            for (name, value) in expected {
                assert_kept(value, found.get(name).unwrap_or(&Value::Null), &format!("{path}.{name}"));
            }
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            for (index, (expected, found)) in expected.iter().zip(found).enumerate() {
                assert_kept(expected, found, &format!("{path}[{index}]"));
            }
        }
        _ => assert_eq!(expected, found, "{path}"),
    }
}

/// Returns an object in the Tenant's namespace.
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

impl TestEnv {
    async fn as_helm(&self, object: Value) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), object.to_string()).unwrap();
        let manifest = file.path().to_str().unwrap();
        let helm = ["apply", "--server-side", "--force-conflicts", "--field-manager=helm", "-f", manifest];
        self.kubectl(&helm).await.unwrap();
    }

    /// Creates the objects that Capsule creates for a Tenant with one namespace.
    async fn create_capsule_objects(&self) {
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
        self.as_helm(namespace_webhook()).await;
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
async fn migrates_from_capsule_and_back() {
    let (env, webhooks) = (TestEnv::bare().await, Webhooks::new());
    env.create_capsule_objects().await;
    let before = env.uids().await;

    // Migration: delete Capsule's webhooks, replace the CRDs, start the manager.
    env.kubectl(&["delete", "validatingwebhookconfiguration", "capsule-dynamic-webhook"]).await.unwrap();
    let apply = ["apply", "--server-side", "--force-conflicts", "-f"];
    env.kubectl(&[&apply[..], &[&path("deploy/crds")]].concat()).await.unwrap();
    env.kubectl(&["wait", "--for=condition=Established", "-f", &path("deploy/crds")]).await.unwrap();
    let configuration = path("crates/tenant/tests/fixtures/chart-configuration.yaml");
    env.kubectl(&["apply", "--server-side", "--field-manager=helm", "-f", &configuration]).await.unwrap();
    env.grant_rights().await;
    let manager = env.start_with_webhooks("manager", webhooks, &[]);
    manager.until_readyz(200, "ok").await;
    env.configure(webhooks).await;
    env.until_tenant_ready("oil", 1).await;

    assert_kept(&tenant()["spec"], &env.read(&["get", "tenant", "oil"]).await["spec"], "spec");
    // The manager adopts the existing objects and creates no others.
    env.until_count(&["rolebindings", INSIDE], 3).await;
    assert_eq!(env.uids().await, before);
    for kind in ["limitranges", "resourcequotas", "networkpolicies"] {
        let all = env.read(&["get", kind, INSIDE]).await;
        let all = all["items"].as_array().unwrap();
        assert_eq!(all.len(), 1, "{kind}");
        assert_eq!(all[0]["metadata"]["labels"]["app.kubernetes.io/managed-by"], "ensemble");
        assert_eq!(all[0]["metadata"]["labels"]["projectcapsule.dev/managed-by"], "controller");
    }
    let bindings = env.names(&["rolebindings", INSIDE]).await;
    assert!(bindings.iter().all(|name| name.starts_with("capsule:managed:")), "{bindings:?}");
    for condition in ["Ready", "FieldsEnforced"] {
        let condition = format!("--for=condition={condition}");
        env.kubectl(&["wait", &condition, "capsuleconfiguration/default", "--timeout=60s"]).await.unwrap();
    }
    let create =
        ["create", "namespace", "oil-new", "--as=alice", "--as-group=projectcapsule.dev", "--dry-run=server"];
    eventually("alice to create namespaces", PATIENCE, async || env.kubectl(&create).await.map(|_| true))
        .await
        .unwrap();
    eventually("the older version to be read", PATIENCE, async || {
        Ok(env.kubectl(&["get", "tenants.v1beta1.capsule.clastix.io", "oil"]).await.is_ok())
    })
    .await
    .unwrap();
    env.assert_no_forbidden_requests();
    manager.stop().await;

    // Migration back: delete our webhooks, restore Capsule's CRD. The objects of its kinds are
    // unchanged.
    env.kubectl(&["delete", "-f", &path("deploy/webhooks"), "--ignore-not-found"]).await.unwrap();
    // (A deployed manager uses a Service instead of a URL.)
    let config = json!({ "url": null, "service": definition()["spec"]["conversion"]["webhook"]["clientConfig"]["service"] });
    let patch = json!({ "spec": { "conversion": { "webhook": { "clientConfig": config } } } }).to_string();
    env.kubectl(&["patch", "crd", "tenants.capsule.clastix.io", "--type=merge", "-p", &patch]).await.unwrap();
    env.as_helm(definition()).await;
    let back = env.read(&["get", "tenant", "oil"]).await;
    assert_kept(&tenant()["spec"], &back["spec"], "spec");
    assert_eq!(back["metadata"]["finalizers"], tenant()["metadata"]["finalizers"]);
    assert_eq!(env.uids().await, before);
    let definition = env.read(&["get", "crd", "tenants.capsule.clastix.io"]).await;
    let service = &definition["spec"]["conversion"]["webhook"]["clientConfig"]["service"];
    assert_eq!(service["name"], "capsule-webhook-service");
}
