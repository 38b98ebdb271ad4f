//! Managed objects in the namespaces of Tenants.

use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{Subject, shared_env};
use crate::support::TestEnv;

const MANAGED: &str = "projectcapsule.dev/managed-by=controller";

/// Group, version, kind, and plural of managed objects.
const KINDS: [(&str, &str, &str, &str); 4] = [
    ("", "v1", "LimitRange", "limitranges"),
    ("", "v1", "ResourceQuota", "resourcequotas"),
    ("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"),
];

async fn api(
    env: &TestEnv,
    subject: &Subject,
    kind: (&str, &str, &str, &str),
    namespace: &str,
) -> Api<DynamicObject> {
    let (group, version, singular, plural) = kind;
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, singular), plural);
    Api::namespaced_with(subject.client(env).await, namespace, &resource)
}

/// Creates a Tenant with a managed object of every kind. Returns its owner and its namespace.
async fn create_tenant(env: &TestEnv, tenant: &str) -> (Subject, String) {
    let alice = Subject::user(&format!("alice-of-{tenant}"));
    let spec = json!({
        "limitRanges": { "items": [{ "limits": [{ "type": "Pod", "max": { "cpu": "1" } }] }] },
        "resourceQuotas": { "items": [{ "hard": { "pods": "5" } }] },
        "networkPolicies": { "items": [{ "podSelector": {}, "policyTypes": ["Ingress"] }] },
    });
    env.tenant(tenant, &[&alice], spec).await;
    let namespace = format!("{tenant}-dev");
    alice.create(env, &namespace).await.unwrap();
    env.until_tenant_ready(tenant, 1).await;
    (alice, namespace)
}

#[tokio::test]
async fn rejects_writes_of_managed_objects() {
    let env = shared_env().await;
    let (alice, namespace) = create_tenant(env, "guarded").await;
    let inside = Subject::account(&namespace, "default");
    for kind in KINDS {
        let (selector, within) = (format!("--selector={MANAGED}"), format!("--namespace={namespace}"));
        let names = env.names(&[kind.3, &within, &selector]).await;
        let name = names.first().unwrap_or_else(|| panic!("no {}", kind.3));
        for subject in [&alice, &inside] {
            let api = api(env, subject, kind, &namespace).await;
            let refused = |error: kube::Error| {
                let error = error.to_string();
                assert!(error.contains("\"managed-objects.tenant.ensemble\" denied the request"), "{error}");
                assert!(
                    error.contains(&format!(
                        "{} {namespace}/{name} is managed by the Tenant controller",
                        kind.2
                    )),
                    "{error}"
                );
            };
            refused(api.delete(name, &DeleteParams::default()).await.unwrap_err());
            // The label cannot be removed.
            let unlabelled = json!({ "metadata": { "labels": { "projectcapsule.dev/managed-by": null } } });
            let changed = json!({ "metadata": { "annotations": { "a": "b" } } });
            for patch in [unlabelled, changed] {
                let params = PatchParams::default();
                refused(api.patch(name, &params, &Patch::Merge(&patch)).await.unwrap_err());
                if kind.2 == "ResourceQuota" {
                    refused(api.patch_status(name, &params, &Patch::Merge(&patch)).await.unwrap_err());
                }
            }
        }
    }
}

#[tokio::test]
async fn owners_create_own_objects_but_not_with_managed_label() {
    let env = shared_env().await;
    let (alice, namespace) = create_tenant(env, "freely").await;
    let range = |name: &str, labels: Value| -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "LimitRange", "metadata": { "name": name, "labels": labels },
            "spec": { "limits": [] },
        }))
        .unwrap()
    };
    let api = api(env, &alice, KINDS[0], &namespace).await;
    api.create(&PostParams::default(), &range("mine", json!({ "team": "a" }))).await.unwrap();
    let label = json!({ "metadata": { "labels": { "projectcapsule.dev/managed-by": "controller" } } });
    let refused = api.patch("mine", &PatchParams::default(), &Patch::Merge(&label)).await.unwrap_err();
    assert!(refused.to_string().contains("remove it"), "{refused}");
    let passed_off = range("passed-off", json!({ "projectcapsule.dev/managed-by": "controller" }));
    let refused = api.create(&PostParams::default(), &passed_off).await.unwrap_err();
    assert!(refused.to_string().contains("remove it"), "{refused}");
    api.delete("mine", &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn recreates_managed_objects_deleted_by_administrator() {
    let env = shared_env().await;
    let (_, namespace) = create_tenant(env, "healed").await;
    let within = format!("--namespace={namespace}");
    let name = env.names(&["limitranges", &within]).await.remove(0);
    env.kubectl(&["delete", "limitrange", &name, &within]).await.unwrap();
    env.until_count(&["limitranges", &within], 1).await;
}

/// Returns a minimal object of a managed kind.
fn minimal(kind: (&str, &str, &str, &str), metadata: &Value) -> DynamicObject {
    let mut object = json!({ "apiVersion": "v1", "kind": kind.2, "metadata": metadata });
    if !kind.0.is_empty() {
        object["apiVersion"] = format!("{}/{}", kind.0, kind.1).into();
    }
    match kind.2 {
        "LimitRange" => object["spec"] = json!({ "limits": [] }),
        "NetworkPolicy" => object["spec"] = json!({ "podSelector": {} }),
        "RoleBinding" => {
            let role = json!({ "apiGroup": kind.0, "kind": "ClusterRole", "name": "view" });
            object["roleRef"] = role;
        }
        _ => {}
    }
    serde_json::from_value(object).unwrap()
}

#[tokio::test]
async fn names_of_managed_objects_are_reserved() {
    let env = shared_env().await;
    let (alice, namespace) = create_tenant(env, "reserved").await;
    let inside = Subject::account(&namespace, "default");
    let root = Subject::member("root-of-reserved", "system:masters");
    for kind in KINDS {
        let (reserved, free) = if kind.2 == "RoleBinding" {
            ("capsule:managed:", "capsule-reserved-")
        } else {
            ("capsule-reserved-", "capsule-other-")
        };
        let create = async |subject: &Subject, metadata: &Value| {
            let api = api(env, subject, kind, &namespace).await;
            let created = api.create(&PostParams::default(), &minimal(kind, metadata)).await;
            created.map(|created| created.metadata.name.unwrap()).map_err(|error| error.to_string())
        };
        for subject in [&alice, &inside] {
            for metadata in [json!({ "name": format!("{reserved}9") }), json!({ "generateName": reserved })] {
                let refused = create(subject, &metadata).await.unwrap_err();
                let is_policy =
                    refused.contains("ValidatingAdmissionPolicy 'ensemble-tenant-reserved-names'");
                assert!(is_policy && refused.contains("choose another name"), "{} {refused}", subject.name);
            }
            let name = create(subject, &json!({ "generateName": free })).await.unwrap();
            let api = api(env, subject, kind, &namespace).await;
            api.delete(&name, &DeleteParams::default()).await.unwrap();
        }
        let name = create(&root, &json!({ "name": format!("{reserved}9") })).await.unwrap();
        // Existing objects can still be changed and deleted.
        let api = api(env, &alice, kind, &namespace).await;
        let labelled = Patch::Merge(json!({ "metadata": { "labels": { "team": "a" } } }));
        api.patch(&name, &PatchParams::default(), &labelled).await.unwrap();
        api.delete(&name, &DeleteParams::default()).await.unwrap();
        // Names are reserved only in namespaces of Tenants.
        let elsewhere = Api::<DynamicObject>::namespaced_with(
            alice.client(env).await,
            "default",
            &ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(kind.0, kind.1, kind.2), kind.3),
        );
        let metadata = json!({ "name": format!("{reserved}9") });
        elsewhere.create(&PostParams::default(), &minimal(kind, &metadata)).await.unwrap();
    }
}
