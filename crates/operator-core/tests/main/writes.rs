//! What writes promise.

use cluster::wait::eventually;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use operator_core::{
    informer::{Informers, Selection},
    write::{Children, OperationResult, WriteError},
};
use serde_json::json;

use crate::support::{PATIENCE, World, config_map, says};

#[tokio::test]
async fn what_did_not_change_is_not_sent_and_own_writes_are_seen_at_once() {
    let world = World::new().await;
    let owner = world.owner("owner").await;
    let key = world.key("child");
    let write =
        async |value: &str| world.children.create_or_update(&key, &owner, says("a", value)).await.unwrap();
    assert_eq!(write("1").await, OperationResult::Created);
    assert_eq!(write("1").await, OperationResult::Unchanged);
    assert_eq!(write("2").await, OperationResult::Updated);
    assert_eq!(write("2").await, OperationResult::Unchanged);
    // The log may have a write after its answer has come. When it has the last one, it has all.
    world.children.create_or_update(&world.key("last"), &owner, says("a", "1")).await.unwrap();
    let verbs = eventually("the last write to be in the log", PATIENCE, async || {
        let verbs = world.verbs();
        let creates = verbs.iter().filter(|verb| *verb == "create").count();
        Ok(if creates == 2 { Ok(verbs) } else { Err(verbs) })
    });
    assert_eq!(verbs.await.unwrap(), ["create", "update", "create"]);
}

#[tokio::test]
async fn what_others_wrote_stays() {
    let world = World::new().await;
    let owner = world.owner("owner").await;
    let key = world.key("child");
    world.children.create_or_update(&key, &owner, says("a", "1")).await.unwrap();
    let foreign = Patch::Merge(json!({"metadata": {"annotations": {"note": "kept"}}, "data": {"b": "kept"}}));
    world.config_maps().patch("child", &PatchParams::default(), &foreign).await.unwrap();
    // Whether the cache has seen the foreign write or not, the outcome is the same.
    world.children.create_or_update(&key, &owner, says("a", "2")).await.unwrap();
    let child = world.config_maps().get("child").await.unwrap();
    assert_eq!(child.annotations()["note"], "kept");
    assert_eq!(child.data.unwrap(), [("a".into(), "2".into()), ("b".into(), "kept".into())].into());
}

#[tokio::test]
async fn a_cache_that_knows_nothing_is_made_good() {
    let world = World::new().await;
    let owner = world.owner("owner").await;
    let key = world.key("child");
    world.children.create_or_update(&key, &owner, says("a", "1")).await.unwrap();
    // An informer that has not been synced stands for one that is far behind.
    let behind = Informers::new(world.client.clone()).get::<ConfigMap>(Selection::Managed);
    let children = Children::new(world.client.clone(), behind);
    assert_eq!(
        children.create_or_update(&key, &owner, says("a", "1")).await.unwrap(),
        OperationResult::Unchanged
    );
    assert_eq!(
        children.create_or_update(&key, &owner, says("a", "2")).await.unwrap(),
        OperationResult::Updated
    );
}

#[tokio::test]
async fn what_belongs_to_others_or_to_nobody_is_not_touched() {
    let world = World::new().await;
    let (ours, theirs) = (world.owner("ours").await, world.owner("theirs").await);
    world.children.create_or_update(&world.key("theirs-child"), &theirs, says("a", "1")).await.unwrap();
    world.create(config_map("orphan", &[("a", "1")])).await;
    for (name, holder) in [("theirs-child", "ConfigMap theirs"), ("orphan", "none")] {
        let before = world.config_maps().get(name).await.unwrap();
        let error =
            world.children.create_or_update(&world.key(name), &ours, says("a", "2")).await.unwrap_err();
        assert!(matches!(&error, WriteError::NotOwned { holder: said, .. } if said == holder), "{error}");
        assert_eq!(world.config_maps().get(name).await.unwrap(), before);
    }
}

#[tokio::test]
async fn a_delete_ends_the_incarnation_that_was_meant_and_no_namesake() {
    let world = World::new().await;
    let owner = world.owner("owner").await;
    let key = world.key("child");
    world.children.create_or_update(&key, &owner, says("a", "1")).await.unwrap();
    let meant = world.children.get(&key).unwrap();
    world.config_maps().delete("child", &DeleteParams::default()).await.unwrap();
    let namesake = world.create(config_map("child", &[])).await;
    world.children.delete(&meant).await.unwrap();
    assert_eq!(world.config_maps().get("child").await.unwrap().uid(), namesake.uid());
}

#[tokio::test]
async fn a_deleted_child_is_gone_for_the_next_read() {
    let world = World::new().await;
    let owner = world.owner("owner").await;
    let key = world.key("child");
    world.children.create_or_update(&key, &owner, says("a", "1")).await.unwrap();
    world.children.delete(&world.children.get(&key).unwrap()).await.unwrap();
    assert!(world.children.get(&key).is_none());
    assert_eq!(
        world.children.create_or_update(&key, &owner, says("a", "1")).await.unwrap(),
        OperationResult::Created
    );
}

/// Children whose informer learns of nothing but their own writes.
fn without_watch(world: &World) -> Children<ConfigMap> {
    let silent = tower::service_fn(|_| {
        std::future::pending::<Result<http::Response<kube::client::Body>, std::io::Error>>()
    });
    let informer = Informers::new(Client::new(silent, "default")).get::<ConfigMap>(Selection::Managed);
    Children::new(world.client.clone(), informer)
}

#[tokio::test]
async fn an_object_that_a_delete_does_not_find_is_gone_for_the_next_read() {
    let world = World::new().await;
    let (owner, key, children) = (world.owner("owner").await, world.key("child"), without_watch(&world));
    children.create_or_update(&key, &owner, says("a", "1")).await.unwrap();
    let known = children.get(&key).unwrap();
    world.config_maps().delete("child", &DeleteParams::default()).await.unwrap();
    children.delete(&known).await.unwrap();
    assert!(children.get(&key).is_none());
}

#[tokio::test]
async fn a_delete_that_finds_a_namesake_leaves_the_cache_to_the_watch() {
    let world = World::new().await;
    let (owner, key, children) = (world.owner("owner").await, world.key("child"), without_watch(&world));
    children.create_or_update(&key, &owner, says("a", "1")).await.unwrap();
    let known = children.get(&key).unwrap();
    world.config_maps().delete("child", &DeleteParams::default()).await.unwrap();
    world.create(config_map("child", &[])).await;
    children.delete(&known).await.unwrap();
    assert_eq!(children.get(&key).unwrap().uid(), known.uid());
}

#[tokio::test]
async fn an_object_that_an_update_does_not_find_is_created() {
    let world = World::new().await;
    let (owner, key, children) = (world.owner("owner").await, world.key("child"), without_watch(&world));
    children.create_or_update(&key, &owner, says("a", "1")).await.unwrap();
    world.config_maps().delete("child", &DeleteParams::default()).await.unwrap();
    assert_eq!(
        children.create_or_update(&key, &owner, says("a", "2")).await.unwrap(),
        OperationResult::Created
    );
    let live = world.config_maps().get("child").await.unwrap();
    assert_eq!(children.get(&key).unwrap().uid(), live.uid());
}
