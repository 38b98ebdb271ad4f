//! What somebody changes by hand is put back, and what is no longer wanted goes.

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

use crate::support::{Namespaced, World};

const ADMIN: &str = "capsule:managed:f93a4d3523f699fb";

fn spec() -> Value {
    json!({
        "owners": [{ "kind": "User", "name": "alice", "clusterRoles": ["admin"] }],
        "limitRanges": { "items": [{ "limits": [{ "type": "Container", "max": { "cpu": "1" } }] }] },
        "networkPolicies": { "items": [{ "podSelector": {}, "policyTypes": ["Ingress"] }] },
        "resourceQuotas": { "items": [{ "hard": { "pods": "10" } }] },
    })
}

async fn patch<K: Namespaced>(world: &World, name: &str, patch: Value) {
    let api = world.api::<K>(&world.named("a"));
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// Changes the object, strips it of its labels, and deletes it; each time it must come back as it was.
async fn comes_back<K: Namespaced>(world: &World, name: &str, change: Value, as_was: fn(&K) -> Value) {
    let api = world.api::<K>(&world.named("a"));
    let before = api.get(name).await.unwrap();
    let is_back = |object: &K| as_was(object) == as_was(&before) && object.labels() == before.labels();
    patch::<K>(world, name, change).await;
    world.until_object("a", name, "to be repaired", is_back).await;
    patch::<K>(world, name, json!({ "metadata": { "labels": null } })).await;
    world.until_object("a", name, "to have its labels again", is_back).await;
    api.delete(name, &DeleteParams::default()).await.unwrap();
    let again = |object: &K| is_back(object) && object.uid() != before.uid();
    world.until_object("a", name, "to be made again", again).await;
}

#[tokio::test]
async fn every_kind_is_repaired() {
    let world = World::new().await;
    world.ready(spec(), &["a"]).await;
    let name = format!("capsule-{}-0", world.name);
    comes_back::<LimitRange>(&world, &name, json!({ "spec": { "limits": [] } }), |object| json!(object.spec))
        .await;
    comes_back::<NetworkPolicy>(&world, &name, json!({ "spec": { "policyTypes": ["Egress"] } }), |object| {
        json!(object.spec)
    })
    .await;
    comes_back::<ResourceQuota>(&world, &name, json!({ "spec": { "hard": { "pods": "99" } } }), |object| {
        json!([object.spec, object.annotations()])
    })
    .await;
    let mallory = json!({ "subjects": [{ "kind": "User", "name": "mallory" }] });
    comes_back::<RoleBinding>(&world, ADMIN, mallory, |object| json!([object.role_ref, object.subjects]))
        .await;
    world.until_ready(&["a"]).await;
}

#[tokio::test]
async fn a_binding_to_another_role_is_replaced() {
    let world = World::new().await;
    world.ready(spec(), &["a"]).await;
    let api = world.api::<RoleBinding>(&world.named("a"));
    let mut forged = api.get(ADMIN).await.unwrap();
    api.delete(ADMIN, &DeleteParams::default()).await.unwrap();
    forged.metadata.resource_version = None;
    forged.role_ref.name = "view".to_owned();
    // The controller may be faster; then there is nothing left to forge.
    let _ = api.create(&PostParams::default(), &forged).await;
    world
        .until_object::<RoleBinding>("a", ADMIN, "to give admin again", |binding| {
            binding.role_ref.name == "admin"
        })
        .await;
    world.until_ready(&["a"]).await;
}

#[tokio::test]
async fn other_scopes_need_another_quota() {
    let world = World::new().await;
    world.ready(spec(), &["a"]).await;
    let items = json!([{ "hard": { "pods": "10" }, "scopes": ["BestEffort"] }]);
    world.change(json!({ "resourceQuotas": { "items": items } })).await;
    world
        .until_objects::<ResourceQuota>("a", "to have the scope", |quotas| {
            quotas.len() == 1 && quotas[0].spec.as_ref().is_some_and(|spec| spec.scopes.is_some())
        })
        .await;
    world.until_ready(&["a"]).await;
}

#[tokio::test]
async fn what_is_taken_out_of_the_spec_goes() {
    let world = World::new().await;
    let mut spec = spec();
    let items = spec["limitRanges"]["items"].as_array_mut().unwrap();
    items.push(json!({ "limits": [{ "type": "Pod", "max": { "cpu": "2" } }] }));
    world.ready(spec, &["a", "b"]).await;
    world.until_objects::<LimitRange>("b", "to be two", |found| found.len() == 2).await;
    let stranger: LimitRange = serde_json::from_value(json!({
        "metadata": { "name": "theirs", "labels": { "capsule.clastix.io/limit-range": "7" } },
        "spec": { "limits": [] },
    }))
    .unwrap();
    world.api(&world.named("a")).create(&PostParams::default(), &stranger).await.unwrap();

    let one = json!([{ "limits": [{ "type": "Container", "max": { "cpu": "3" } }] }]);
    world
        .change(json!({
            "owners": null, "networkPolicies": null, "resourceQuotas": null, "limitRanges": { "items": one },
        }))
        .await;
    for end in ["a", "b"] {
        world.until_objects::<NetworkPolicy>(end, "to be gone", <[_]>::is_empty).await;
        world.until_objects::<ResourceQuota>(end, "to be gone", <[_]>::is_empty).await;
        world.until_objects::<RoleBinding>(end, "to be gone", <[_]>::is_empty).await;
    }
    let left = world.until_objects::<LimitRange>("b", "to be one", |found| found.len() == 1).await;
    let max = left[0].spec.as_ref().unwrap().limits[0].max.as_ref().unwrap();
    assert_eq!(max["cpu"].0, "3");
    world.until_objects::<LimitRange>("a", "to be ours and theirs", |found| found.len() == 2).await;
    world.until_ready(&["a", "b"]).await;
}
