//! The end of a Tenant.

use std::time::Duration;

use cluster::wait::eventually;
use k8s_openapi::api::{core::v1::ConfigMap, rbac::v1::RoleBinding};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, PropagationPolicy},
};
use operator_core::conditions::find;
use serde_json::{Value, json, to_value};

use crate::support::{PATIENCE, World, label, said, status};

/// The garbage collector learns of a kind that is new to the cluster at most half a minute later.
const UNTIL_COLLECTED: Duration = Duration::from_mins(2);

fn spec() -> Value {
    json!({
        "owners": [{ "kind": "User", "name": "alice", "clusterRoles": ["admin"] }],
        "limitRanges": { "items": [{ "limits": [{ "type": "Container", "max": { "cpu": "1" } }] }] },
    })
}

async fn until_gone(world: &World) {
    eventually("the Tenant to be gone", PATIENCE, async || {
        let tenant = world.tenants().get_opt(&world.name).await?;
        Ok(tenant.map_or(Ok(()), |tenant| Err(Box::new(tenant.status))))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_tenant_without_namespaces_is_gone_at_once() {
    let world = World::new().await;
    world.ready(spec(), &[]).await;
    world.tenants().delete(&world.name, &DeleteParams::default()).await.unwrap();
    assert!(world.tenants().get_opt(&world.name).await.unwrap().is_none());
}

#[tokio::test]
async fn a_deleted_tenant_waits_for_its_namespaces_and_takes_no_others() {
    let world = World::new().await;
    world.ready(spec(), &["a", "b"]).await;
    world.namespace("stranger", json!({ "labels": label(&world.name) })).await;
    let held: ConfigMap = serde_json::from_value(json!({
        "metadata": { "name": "held", "finalizers": ["example.com/wait"] },
    }))
    .unwrap();
    let config_maps = world.api::<ConfigMap>(&world.named("a"));
    config_maps.create(&PostParams::default(), &held).await.unwrap();

    world.tenants().delete(&world.name, &DeleteParams::default()).await.unwrap();
    let tenant = world
        .until("the Tenant to wait for the held namespace", |tenant| {
            status(tenant).namespaces == [world.named("a")]
        })
        .await;
    assert_eq!(to_value(status(&tenant).state).unwrap(), "Terminating");
    assert!(tenant.metadata.deletion_timestamp.is_some());
    let (is, reason, message) = said(&tenant, "Ready").unwrap();
    assert_eq!((is.as_str(), reason.as_str()), ("False", "Terminating"));
    assert!(message.contains(&world.named("a")), "{message}");
    world
        .until("what holds it up", |tenant| {
            let conditions = &status(tenant).spaces[0].conditions;
            let found = find(conditions, "Terminating");
            found.is_some_and(|found| found.reason == "PendingUnmanagedContent")
        })
        .await;

    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    config_maps.patch("held", &PatchParams::default(), &free).await.unwrap();
    until_gone(&world).await;
    for end in ["a", "b"] {
        assert!(world.namespaces().get_opt(&world.named(end)).await.unwrap().is_none());
    }
    let stranger = world.namespaces().get(&world.named("stranger")).await.unwrap();
    assert!(stranger.metadata.deletion_timestamp.is_none());
}

#[tokio::test]
async fn a_deleted_tenant_says_which_namespace_waits_for_what_and_ends_when_that_is_let_go() {
    let world = World::new().await;
    world.ready(spec(), &["a", "b", "c"]).await;
    let held: ConfigMap = serde_json::from_value(json!({
        "metadata": { "name": "held", "finalizers": ["example.com/backup"] }, "data": { "precious": "yes" },
    }))
    .unwrap();
    let config_maps = world.api::<ConfigMap>(&world.named("a"));
    config_maps.create(&PostParams::default(), &held).await.unwrap();
    world.patch_namespace("b", json!({ "finalizers": ["example.com/audit"] })).await;

    world.tenants().delete(&world.name, &DeleteParams::default()).await.unwrap();
    let (a, b) = (world.named("a"), world.named("b"));
    let tenant = world
        .until("to say what each namespace waits for", |tenant| {
            let (_, _, message) = said(tenant, "Ready").unwrap_or_default();
            status(tenant).namespaces == [a.clone(), b.clone()]
                && message.contains("example.com/backup in 1 resource instances")
                && message
                    .contains(&format!("namespace {b}: waits for its own finalizers: example.com/audit"))
        })
        .await;
    let spaces = status(&tenant).spaces;
    let waits = |at: usize| find(&spaces[at].conditions, "Terminating").unwrap().message.clone();
    assert!(waits(0).contains("example.com/backup"), "{}", waits(0));
    assert!(waits(1).contains("example.com/audit"), "{}", waits(1));
    assert_eq!(config_maps.get("held").await.unwrap().data.unwrap()["precious"], "yes", "nothing is lost");

    world.patch_namespace("b", json!({ "finalizers": null })).await;
    world.until("only the other to be left", |tenant| status(tenant).namespaces == [a.clone()]).await;
    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    config_maps.patch("held", &PatchParams::default(), &free).await.unwrap();
    until_gone(&world).await;
    for end in ["a", "b", "c"] {
        assert!(world.namespaces().get_opt(&world.named(end)).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn deleting_with_orphan_keeps_the_namespaces() {
    let world = World::new().await;
    let before = world.ready(spec(), &["a"]).await;
    let namespace = world.namespaces().get(&world.named("a")).await.unwrap();
    let orphan =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    world.tenants().delete(&world.name, &orphan).await.unwrap();
    eventually("the Tenant to be gone", UNTIL_COLLECTED, async || {
        Ok(world.tenants().get_opt(&world.name).await?.is_none())
    })
    .await
    .unwrap();
    let kept = world.namespaces().get(&world.named("a")).await.unwrap();
    assert_eq!((kept.uid(), &kept.metadata.deletion_timestamp), (namespace.uid(), &None));
    assert!(kept.owner_references().iter().all(|owner| Some(&owner.uid) != before.uid().as_ref()));
    world.until_objects::<RoleBinding>("a", "to stay", |found| found.len() == 1).await;
}
