//! Repairs of objects that were changed or deleted, and removal of obsolete objects.

use k8s_openapi::api::{
    core::v1::{LimitRange, ResourceQuota},
    networking::v1::NetworkPolicy,
    rbac::v1::RoleBinding,
};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::support::{Namespaced, TestEnv};

const ADMIN: &str = "capsule:managed:f93a4d3523f699fb";

fn spec() -> Value {
    json!({
        "owners": [{ "kind": "User", "name": "alice", "clusterRoles": ["admin"] }],
        "limitRanges": { "items": [{ "limits": [{ "type": "Container", "max": { "cpu": "1" } }] }] },
        "networkPolicies": { "items": [{ "podSelector": {}, "policyTypes": ["Ingress"] }] },
        "resourceQuotas": { "items": [{ "hard": { "pods": "10" } }] },
    })
}

async fn patch<K: Namespaced>(env: &TestEnv, name: &str, patch: Value) {
    let api = env.api::<K>(&env.prefixed("a"));
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// Changes the object, removes its labels, and deletes it. Waits for the repair after each step.
async fn assert_repaired<K: Namespaced>(env: &TestEnv, name: &str, change: Value, content: fn(&K) -> Value) {
    let api = env.api::<K>(&env.prefixed("a"));
    let before = api.get(name).await.unwrap();
    let is_repaired = |object: &K| content(object) == content(&before) && object.labels() == before.labels();
    patch::<K>(env, name, change).await;
    env.until_object("a", name, "to be repaired", is_repaired).await;
    patch::<K>(env, name, json!({ "metadata": { "labels": null } })).await;
    env.until_object("a", name, "to have its labels", is_repaired).await;
    api.delete(name, &DeleteParams::default()).await.unwrap();
    let again = |object: &K| is_repaired(object) && object.uid() != before.uid();
    env.until_object("a", name, "to be recreated", again).await;
}

#[tokio::test]
async fn repairs_every_kind() {
    let env = TestEnv::new().await;
    env.ready(spec(), &["a"]).await;
    let name = format!("capsule-{}-0", env.name);
    assert_repaired::<LimitRange>(&env, &name, json!({ "spec": { "limits": [] } }), |object| {
        json!(object.spec)
    })
    .await;
    assert_repaired::<NetworkPolicy>(
        &env,
        &name,
        json!({ "spec": { "policyTypes": ["Egress"] } }),
        |object| json!(object.spec),
    )
    .await;
    assert_repaired::<ResourceQuota>(
        &env,
        &name,
        json!({ "spec": { "hard": { "pods": "99" } } }),
        |object| json!([object.spec, object.annotations()]),
    )
    .await;
    let mallory = json!({ "subjects": [{ "kind": "User", "name": "mallory" }] });
    assert_repaired::<RoleBinding>(&env, ADMIN, mallory, |object| json!([object.role_ref, object.subjects]))
        .await;
    env.until_ready(&["a"]).await;
}

#[tokio::test]
async fn replaces_binding_to_another_role() {
    let env = TestEnv::new().await;
    env.ready(spec(), &["a"]).await;
    let api = env.api::<RoleBinding>(&env.prefixed("a"));
    let mut forged = api.get(ADMIN).await.unwrap();
    api.delete(ADMIN, &DeleteParams::default()).await.unwrap();
    forged.metadata.resource_version = None;
    forged.role_ref.name = "view".to_owned();
    // Fails if the controller recreates the binding first.
    let _ = api.create(&PostParams::default(), &forged).await;
    env.until_object::<RoleBinding>("a", ADMIN, "to give admin again", |binding| {
        binding.role_ref.name == "admin"
    })
    .await;
    env.until_ready(&["a"]).await;
}

#[tokio::test]
async fn replaces_quota_when_scopes_change() {
    let env = TestEnv::new().await;
    env.ready(spec(), &["a"]).await;
    let items = json!([{ "hard": { "pods": "10" }, "scopes": ["BestEffort"] }]);
    env.change(json!({ "resourceQuotas": { "items": items } })).await;
    env.until_objects::<ResourceQuota>("a", "to have the scope", |quotas| {
        quotas.len() == 1 && quotas[0].spec.as_ref().is_some_and(|spec| spec.scopes.is_some())
    })
    .await;
    env.until_ready(&["a"]).await;
}

#[tokio::test]
async fn deletes_objects_that_are_removed_from_the_spec() {
    let env = TestEnv::new().await;
    let mut spec = spec();
    let items = spec["limitRanges"]["items"].as_array_mut().unwrap();
    items.push(json!({ "limits": [{ "type": "Pod", "max": { "cpu": "2" } }] }));
    env.ready(spec, &["a", "b"]).await;
    env.until_objects::<LimitRange>("b", "to be two", |found| found.len() == 2).await;
    let foreign: LimitRange = serde_json::from_value(json!({
        "metadata": { "name": "theirs", "labels": { "capsule.clastix.io/limit-range": "7" } },
        "spec": { "limits": [] },
    }))
    .unwrap();
    env.api(&env.prefixed("a")).create(&PostParams::default(), &foreign).await.unwrap();

    let one = json!([{ "limits": [{ "type": "Container", "max": { "cpu": "3" } }] }]);
    env.change(json!({
        "owners": null, "networkPolicies": null, "resourceQuotas": null, "limitRanges": { "items": one },
    }))
    .await;
    for suffix in ["a", "b"] {
        env.until_objects::<NetworkPolicy>(suffix, "to be gone", <[_]>::is_empty).await;
        env.until_objects::<ResourceQuota>(suffix, "to be gone", <[_]>::is_empty).await;
        env.until_objects::<RoleBinding>(suffix, "to be gone", <[_]>::is_empty).await;
    }
    let left = env.until_objects::<LimitRange>("b", "to be one", |found| found.len() == 1).await;
    let max = left[0].spec.as_ref().unwrap().limits[0].max.as_ref().unwrap();
    assert_eq!(max["cpu"].0, "3");
    env.until_objects::<LimitRange>("a", "to be one of the Tenant and the foreign one", |found| {
        found.len() == 2
    })
    .await;
    env.until_ready(&["a", "b"]).await;
}
