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
