//! What the controller keeps in the namespaces of Tenants.

use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{Person, town};
use crate::support::Stage;

const MANAGED: &str = "projectcapsule.dev/managed-by=controller";

/// Group, version, kind and plural of what is kept.
const KINDS: [(&str, &str, &str, &str); 4] = [
    ("", "v1", "LimitRange", "limitranges"),
    ("", "v1", "ResourceQuota", "resourcequotas"),
    ("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"),
];

async fn api(
    stage: &Stage,
    who: &Person,
    kind: (&str, &str, &str, &str),
    namespace: &str,
) -> Api<DynamicObject> {
    let (group, version, singular, plural) = kind;
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, singular), plural);
    Api::namespaced_with(who.client(stage).await, namespace, &resource)
}

/// A Tenant with something of every kind in one namespace; its owner, and the namespace.
async fn furnished(stage: &Stage, tenant: &str) -> (Person, String) {
    let alice = Person::user(&format!("alice-of-{tenant}"));
    let spec = json!({
        "limitRanges": { "items": [{ "limits": [{ "type": "Pod", "max": { "cpu": "1" } }] }] },
        "resourceQuotas": { "items": [{ "hard": { "pods": "5" } }] },
        "networkPolicies": { "items": [{ "podSelector": {}, "policyTypes": ["Ingress"] }] },
    });
    stage.tenant(tenant, &[&alice], spec).await;
    let namespace = format!("{tenant}-dev");
    alice.create(stage, &namespace).await.unwrap();
    stage.until_joined(tenant, 1).await;
    (alice, namespace)
}

#[tokio::test]
async fn nobody_writes_what_the_controller_keeps() {
    let stage = town().await;
    let (alice, namespace) = furnished(stage, "furnished").await;
    let inside = Person::account(&namespace, "default");
    for kind in KINDS {
        let (selector, within) = (format!("--selector={MANAGED}"), format!("--namespace={namespace}"));
        let names = stage.names(&[kind.3, &within, &selector]).await;
        let name = names.first().unwrap_or_else(|| panic!("no {}", kind.3));
        for who in [&alice, &inside] {
            let api = api(stage, who, kind, &namespace).await;
            let refused = |error: kube::Error| {
                let said = error.to_string();
                assert!(said.contains("\"managed-objects.tenant.ensemble\" denied the request"), "{said}");
                assert!(
                    said.contains(&format!("{} {namespace}/{name} is kept by the Tenant controller", kind.2)),
                    "{said}"
                );
            };
            refused(api.delete(name, &DeleteParams::default()).await.unwrap_err());
            // The label cannot be taken off first.
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
async fn owners_keep_objects_of_their_own_and_cannot_pass_them_off_as_managed() {
    let stage = town().await;
    let (alice, namespace) = furnished(stage, "freely").await;
    let range = |name: &str, labels: Value| -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "LimitRange", "metadata": { "name": name, "labels": labels },
            "spec": { "limits": [] },
        }))
        .unwrap()
    };
    let api = api(stage, &alice, KINDS[0], &namespace).await;
    api.create(&PostParams::default(), &range("mine", json!({ "team": "a" }))).await.unwrap();
    let label = json!({ "metadata": { "labels": { "projectcapsule.dev/managed-by": "controller" } } });
    let refused = api.patch("mine", &PatchParams::default(), &Patch::Merge(&label)).await.unwrap_err();
    assert!(refused.to_string().contains("leave it out"), "{refused}");
    let passed_off = range("passed-off", json!({ "projectcapsule.dev/managed-by": "controller" }));
    let refused = api.create(&PostParams::default(), &passed_off).await.unwrap_err();
    assert!(refused.to_string().contains("leave it out"), "{refused}");
    api.delete("mine", &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn what_an_administrator_of_the_cluster_deletes_is_made_again() {
    let stage = town().await;
    let (_, namespace) = furnished(stage, "healed").await;
    let within = format!("--namespace={namespace}");
    let name = stage.names(&["limitranges", &within]).await.remove(0);
    stage.kubectl(&["delete", "limitrange", &name, &within]).await.unwrap();
    stage.until_count(&["limitranges", &within], 1).await;
}

/// An object of a kind that is kept, as small as it can be.
fn smallest(kind: (&str, &str, &str, &str), metadata: &Value) -> DynamicObject {
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
async fn names_of_what_is_kept_are_reserved_for_the_manager_and_administrators() {
    let stage = town().await;
    let (alice, namespace) = furnished(stage, "reserved").await;
    let inside = Person::account(&namespace, "default");
    let root = Person::member("root-of-reserved", "system:masters");
    for kind in KINDS {
        let (taken, free) = if kind.2 == "RoleBinding" {
            ("capsule:managed:", "capsule-reserved-")
        } else {
            ("capsule-reserved-", "capsule-other-")
        };
        let create = async |who: &Person, metadata: &Value| {
            let api = api(stage, who, kind, &namespace).await;
            let created = api.create(&PostParams::default(), &smallest(kind, metadata)).await;
            created.map(|created| created.metadata.name.unwrap()).map_err(|error| error.to_string())
        };
        for who in [&alice, &inside] {
            for metadata in [json!({ "name": format!("{taken}9") }), json!({ "generateName": taken })] {
                let refused = create(who, &metadata).await.unwrap_err();
                let is_policy =
                    refused.contains("ValidatingAdmissionPolicy 'ensemble-tenant-reserved-names'");
                assert!(is_policy && refused.contains("choose another name"), "{} {refused}", who.name);
            }
            let name = create(who, &json!({ "generateName": free })).await.unwrap();
            let api = api(stage, who, kind, &namespace).await;
            api.delete(&name, &DeleteParams::default()).await.unwrap();
        }
        let name = create(&root, &json!({ "name": format!("{taken}9") })).await.unwrap();
        // What is there already can be changed and deleted by whoever may.
        let api = api(stage, &alice, kind, &namespace).await;
        let labelled = Patch::Merge(json!({ "metadata": { "labels": { "team": "a" } } }));
        api.patch(&name, &PatchParams::default(), &labelled).await.unwrap();
        api.delete(&name, &DeleteParams::default()).await.unwrap();
        // It is about namespaces of Tenants.
        let elsewhere = Api::<DynamicObject>::namespaced_with(
            alice.client(stage).await,
            "default",
            &ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(kind.0, kind.1, kind.2), kind.3),
        );
        let metadata = json!({ "name": format!("{taken}9") });
        elsewhere.create(&PostParams::default(), &smallest(kind, &metadata)).await.unwrap();
    }
}
