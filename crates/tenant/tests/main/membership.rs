//! Which namespaces belong to a Tenant.

use k8s_openapi::api::{core::v1::LimitRange, rbac::v1::RoleBinding};
use kube::{
    ResourceExt,
    api::{DeleteParams, PostParams},
};
use operator_core::finalizer;
use serde_json::{Value, json};

use crate::support::{World, label, reference, status, tenant};

fn spec() -> Value {
    json!({
        "owners": [{ "kind": "User", "name": "alice", "clusterRoles": ["admin"] }],
        "limitRanges": { "items": [{ "limits": [{ "type": "Container", "max": { "cpu": "1" } }] }] },
        "nodeSelector": { "pool": "a" },
    })
}

/// That a namespace was not touched, which it would have been by the time that a member is ready.
fn assert_untouched(world: &World, end: &str) {
    let name = world.named(end);
    let log = world.harness.requests().unwrap().writes();
    let about_it = log.filter(|entry| entry.namespace == name || entry.name == name);
    assert_eq!(about_it.entries, [], "{name}");
}

#[tokio::test]
async fn the_label_alone_does_not_join_nor_the_reference_alone() {
    let world = World::new().await;
    let tenant = world.create(spec()).await;
    world.namespace("label", json!({ "labels": label(&world.name) })).await;
    world.namespace("reference", json!({ "ownerReferences": [reference(&tenant)] })).await;
    world.join("member").await;
    world.until_ready(&["member"]).await;
    let words = format!("namespace {} does not belong to the Tenant: it has the label", world.named("label"));
    world.until_said("Ready", "True", &words).await;
    let words =
        format!("namespace {} does not belong to the Tenant: it has an owner", world.named("reference"));
    world.until_said("Ready", "True", &words).await;
    assert_untouched(&world, "label");
    assert_untouched(&world, "reference");

    // An administrator adds what is missing.
    world.patch_namespace("label", json!({ "ownerReferences": [reference(&tenant)] })).await;
    world.patch_namespace("reference", json!({ "labels": label(&world.name) })).await;
    world.until_ready(&["label", "member", "reference"]).await;
}

#[tokio::test]
async fn a_forged_doubled_or_controlling_reference_does_not_join() {
    let world = World::new().await;
    let mine = world.create(spec()).await;
    let other = world
        .tenants()
        .create(&PostParams::default(), &tenant(&world.named("other"), json!({})))
        .await
        .unwrap();
    let mut forged = reference(&mine);
    forged["uid"] = other.uid().into();
    let mut controlling = reference(&mine);
    controlling["controller"] = true.into();
    for (end, references) in [
        ("forged", json!([forged])),
        ("doubled", json!([reference(&mine), reference(&other)])),
        ("controlling", json!([controlling])),
    ] {
        world.namespace(end, json!({ "labels": label(&world.name), "ownerReferences": references })).await;
    }
    world.join("member").await;
    world.until_ready(&["member"]).await;
    world.until_said("Ready", "True", "owner references to several Tenants").await;
    world.until_said("Ready", "True", "says controller: true").await;
    for end in ["forged", "doubled", "controlling"] {
        assert_untouched(&world, end);
    }
    let other = world.tenants().get(&world.named("other")).await.unwrap();
    assert_eq!(status(&other).size, 0);
    world.tenants().delete(&world.named("other"), &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn namespaces_of_the_cluster_itself_never_join() {
    let world = World::new().await;
    let tenant = world.create(spec()).await;
    let own = json!({ "labels": label(&world.name), "ownerReferences": [reference(&tenant)] });
    let name = format!("kube-{}", world.name);
    let namespace = json!({ "metadata": {
        "name": name, "labels": own["labels"], "ownerReferences": own["ownerReferences"],
    } });
    world
        .namespaces()
        .create(&PostParams::default(), &serde_json::from_value(namespace).unwrap())
        .await
        .unwrap();
    world.until_said("Ready", "True", "namespaces of the cluster itself").await;
    world.until_ready(&[]).await;
    world.namespaces().delete(&name, &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn a_namespace_that_leaves_loses_what_the_tenant_made_in_it() {
    let world = World::new().await;
    world.ready(spec(), &["a", "b"]).await;
    world.patch_namespace("a", json!({ "labels": { "capsule.clastix.io/tenant": null } })).await;
    world.until_ready(&["b"]).await;
    world.until_objects::<LimitRange>("a", "to be gone", <[_]>::is_empty).await;
    world.until_objects::<RoleBinding>("a", "to be gone", <[_]>::is_empty).await;
    world.until_objects::<LimitRange>("b", "to stay", |found| found.len() == 1).await;

    world.patch_namespace("b", json!({ "ownerReferences": null })).await;
    let tenant = world.until_ready(&[]).await;
    world.until_objects::<RoleBinding>("b", "to be gone", <[_]>::is_empty).await;
    let has = |tenant: &_| finalizer::has(tenant, "controller.projectcapsule.dev/finalize");
    if has(&tenant) {
        world.until("the finalizer to go", |tenant| !has(tenant)).await;
    }
}

#[tokio::test]
async fn a_namespace_moves_to_another_tenant_by_both_label_and_reference() {
    let (from, to) = (World::new().await, World::new().await);
    from.ready(spec(), &["a"]).await;
    let target = to.create(spec()).await;
    from.patch_namespace("a", json!({ "labels": label(&to.name) })).await;
    from.until_ready(&[]).await;
    from.until_said("Ready", "True", "does not belong to the Tenant").await;
    to.until_said("Ready", "True", "does not belong to the Tenant").await;
    from.patch_namespace("a", json!({ "ownerReferences": [reference(&target)] })).await;
    let is_theirs = |tenant: &tenant::Tenant| status(tenant).namespaces == [from.named("a")];
    to.until("the namespace to be theirs", is_theirs).await;
    from.until_objects::<RoleBinding>("a", "to belong to the other Tenant", |bindings| {
        bindings.len() == 1 && bindings[0].owner_references()[0].name == to.name
    })
    .await;
    to.until_said("Ready", "True", "reconciled").await;
}

#[tokio::test]
async fn a_deleted_namespace_stays_in_the_status_until_it_is_gone() {
    let world = World::new().await;
    world.ready(spec(), &["a", "b"]).await;
    world.patch_namespace("a", json!({ "finalizers": ["example.com/wait"] })).await;
    world.namespaces().delete(&world.named("a"), &DeleteParams::default()).await.unwrap();
    world
        .until("the namespace to be told as leaving", |tenant| {
            let spaces = status(tenant).spaces;
            spaces.len() == 2
                && operator_core::conditions::is_true(&spaces[0].conditions, "Terminating")
                && !operator_core::conditions::is_true(&spaces[0].conditions, "Ready")
        })
        .await;
    world.until_objects::<LimitRange>("a", "not to be made again", <[_]>::is_empty).await;
    world.patch_namespace("a", json!({ "finalizers": null })).await;
    world.until_ready(&["b"]).await;
}
