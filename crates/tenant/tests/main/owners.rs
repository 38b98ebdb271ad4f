//! Owners whom a Tenant picks from the TenantOwners.

use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tenant::api::v1beta2::TenantOwner;

use crate::support::{World, status};

fn owners(world: &World) -> Api<TenantOwner> {
    Api::all(world.client.clone())
}

async fn create(world: &World, end: &str, labels: Value, spec: Value) {
    let owner = json!({ "metadata": { "name": world.named(end), "labels": labels }, "spec": spec });
    owners(world).create(&PostParams::default(), &serde_json::from_value(owner).unwrap()).await.unwrap();
}

async fn label(world: &World, end: &str, labels: Value) {
    let patch = Patch::Merge(json!({ "metadata": { "labels": labels } }));
    owners(world).patch(&world.named(end), &PatchParams::default(), &patch).await.unwrap();
}

/// Waits until exactly these own the Tenant and have one role each in the namespace, `name role`.
async fn until_owned(world: &World, by: &[&str]) {
    world
        .until(&format!("to be owned by {by:?}"), |tenant| {
            let owners = status(tenant).owners;
            owners
                .iter()
                .map(|owner| format!("{} {}", owner.name, owner.cluster_roles.join("+")))
                .eq(by.iter().copied())
        })
        .await;
    let mut wanted: Vec<_> = by.iter().map(|owner| (*owner).to_owned()).collect();
    wanted.sort();
    world
        .until_objects::<RoleBinding>("a", &format!("for {by:?}"), |found| {
            let who = |binding: &RoleBinding| {
                let subject = &binding.subjects.as_ref().unwrap()[0];
                format!("{} {}", subject.name, binding.role_ref.name)
            };
            let mut found: Vec<_> = found.iter().map(who).collect();
            found.sort();
            found == wanted
        })
        .await;
}

#[tokio::test]
async fn owners_are_picked_by_label_and_by_selector_and_lose_their_rights_with_it() {
    let world = World::new().await;
    let name = world.name.clone();
    let alice = json!({ "kind": "User", "name": "alice", "clusterRoles": ["admin"] });
    let selecting =
        json!({ "matchOwners": [{ "matchLabels": { "team": name } }, { "matchLabels": { "all": name } }] });
    world.ready(json!({ "owners": [alice], "permissions": selecting }), &["a"]).await;
    until_owned(&world, &["alice admin"]).await;

    let view = |name: &str| json!({ "kind": "User", "name": name, "clusterRoles": ["view"] });
    create(&world, "anna", json!({ "projectcapsule.dev/tenant": name }), view("anna")).await;
    create(&world, "bob", json!({ "team": name }), view("bob")).await;
    create(&world, "eve", json!({ "team": "other" }), view("eve")).await;
    until_owned(&world, &["alice admin", "anna view", "bob view"]).await;

    label(&world, "bob", json!({ "team": null })).await;
    label(&world, "eve", json!({ "all": name })).await;
    until_owned(&world, &["alice admin", "anna view", "eve view"]).await;

    let edit = Patch::Merge(json!({ "spec": { "clusterRoles": ["edit"] } }));
    owners(&world).patch(&world.named("anna"), &PatchParams::default(), &edit).await.unwrap();
    until_owned(&world, &["alice admin", "anna edit", "eve view"]).await;

    owners(&world).delete(&world.named("anna"), &DeleteParams::default()).await.unwrap();
    world.change(json!({ "permissions": null })).await;
    until_owned(&world, &["alice admin"]).await;
    world.until_ready(&["a"]).await;
    for end in ["bob", "eve"] {
        owners(&world).delete(&world.named(end), &DeleteParams::default()).await.unwrap();
    }
}

#[tokio::test]
async fn a_selector_that_cannot_be_used_is_told_and_the_others_pick() {
    let world = World::new().await;
    let odd = json!({ "matchExpressions": [{ "key": "team", "operator": "Like" }] });
    let good = json!({ "matchLabels": { "team": world.name } });
    create(
        &world,
        "anna",
        json!({ "team": world.name }),
        json!({ "kind": "User", "name": "anna", "clusterRoles": ["view"] }),
    )
    .await;
    world.create(json!({ "permissions": { "matchOwners": [odd, good] } })).await;
    world.join("a").await;
    world.until_said("Ready", "False", "spec.permissions.matchOwners[0] cannot be used").await;
    until_owned(&world, &["anna view"]).await;
    owners(&world).delete(&world.named("anna"), &DeleteParams::default()).await.unwrap();
}
