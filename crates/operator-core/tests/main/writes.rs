//! Writes of children.

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

use crate::support::{Fixture, PATIENCE, config_map, set};

#[tokio::test]
async fn sends_only_changes_and_reads_own_writes() {
    let fixture = Fixture::new().await;
    let owner = fixture.owner("owner").await;
    let key = fixture.key("child");
    let write =
        async |value: &str| fixture.children.create_or_update(&key, &owner, set("a", value)).await.unwrap();
    assert_eq!(write("1").await, OperationResult::Created);
    assert_eq!(write("1").await, OperationResult::Unchanged);
    assert_eq!(write("2").await, OperationResult::Updated);
    assert_eq!(write("2").await, OperationResult::Unchanged);
    // The audit log can contain a write after its response. It is complete with the last one.
    fixture.children.create_or_update(&fixture.key("last"), &owner, set("a", "1")).await.unwrap();
    let verbs = eventually("the last write to be in the log", PATIENCE, async || {
        let verbs = fixture.verbs();
        let creates = verbs.iter().filter(|verb| *verb == "create").count();
        Ok(if creates == 2 { Ok(verbs) } else { Err(verbs) })
    });
    assert_eq!(verbs.await.unwrap(), ["create", "update", "create"]);
}

#[tokio::test]
async fn optional_child_is_deleted_only_by_its_owner() {
    let fixture = Fixture::new().await;
    let (owner, other) = (fixture.owner("owner").await, fixture.owner("other").await);
    let key = fixture.key("child");
    let reconcile = async |owner, value: Option<&str>| {
        fixture.children.reconcile(&key, owner, value.map(|value| set("a", value))).await.unwrap()
    };
    assert_eq!(reconcile(&owner, None).await, OperationResult::Unchanged);
    assert_eq!(reconcile(&owner, Some("1")).await, OperationResult::Created);
    assert_eq!(reconcile(&other, None).await, OperationResult::Unchanged);
    assert!(fixture.children.owned(&key, &other).is_none());
    assert!(fixture.children.owned(&key, &owner).is_some());
    assert_eq!(reconcile(&owner, None).await, OperationResult::Deleted);
    assert!(fixture.config_maps().get_opt("child").await.unwrap().is_none());
}

#[tokio::test]
async fn preserves_fields_of_other_clients() {
    let fixture = Fixture::new().await;
    let owner = fixture.owner("owner").await;
    let key = fixture.key("child");
    fixture.children.create_or_update(&key, &owner, set("a", "1")).await.unwrap();
    let foreign = Patch::Merge(json!({"metadata": {"annotations": {"note": "kept"}}, "data": {"b": "kept"}}));
    fixture.config_maps().patch("child", &PatchParams::default(), &foreign).await.unwrap();
    // The result does not depend on whether the cache contains the other client's write.
    fixture.children.create_or_update(&key, &owner, set("a", "2")).await.unwrap();
    let child = fixture.config_maps().get("child").await.unwrap();
    assert_eq!(child.annotations()["note"], "kept");
    assert_eq!(child.data.unwrap(), [("a".into(), "2".into()), ("b".into(), "kept".into())].into());
}

#[tokio::test]
async fn corrects_a_stale_cache() {
    let fixture = Fixture::new().await;
    let owner = fixture.owner("owner").await;
    let key = fixture.key("child");
    fixture.children.create_or_update(&key, &owner, set("a", "1")).await.unwrap();
    // An informer that has not synced is the stalest cache.
    let behind = Informers::new(fixture.client.clone()).get::<ConfigMap>(Selection::Managed);
    let children = Children::new(fixture.client.clone(), behind);
    assert_eq!(
        children.create_or_update(&key, &owner, set("a", "1")).await.unwrap(),
        OperationResult::Unchanged
    );
    assert_eq!(
        children.create_or_update(&key, &owner, set("a", "2")).await.unwrap(),
        OperationResult::Updated
    );
}

#[tokio::test]
async fn leaves_objects_of_other_owners_or_without_owner() {
    let fixture = Fixture::new().await;
    let (owner, other) = (fixture.owner("owner").await, fixture.owner("other").await);
    fixture.children.create_or_update(&fixture.key("other-child"), &other, set("a", "1")).await.unwrap();
    fixture.create(config_map("orphan", &[("a", "1")])).await;
    for (name, controller) in [("other-child", "ConfigMap other"), ("orphan", "none")] {
        let before = fixture.config_maps().get(name).await.unwrap();
        let error =
            fixture.children.create_or_update(&fixture.key(name), &owner, set("a", "2")).await.unwrap_err();
        assert!(
            matches!(&error, WriteError::NotOwned { holder, is_garbage: false, .. } if holder == controller),
            "{error}"
        );
        assert_eq!(fixture.config_maps().get(name).await.unwrap(), before);
    }
}

#[tokio::test]
async fn deletes_by_uid() {
    let fixture = Fixture::new().await;
    let owner = fixture.owner("owner").await;
    let key = fixture.key("child");
    fixture.children.create_or_update(&key, &owner, set("a", "1")).await.unwrap();
    let child = fixture.children.get(&key).unwrap();
    fixture.config_maps().delete("child", &DeleteParams::default()).await.unwrap();
    let recreated = fixture.create(config_map("child", &[])).await;
    fixture.children.delete(&child).await.unwrap();
    assert_eq!(fixture.config_maps().get("child").await.unwrap().uid(), recreated.uid());
}

#[tokio::test]
async fn deleted_child_is_not_in_the_cache() {
    let fixture = Fixture::new().await;
    let owner = fixture.owner("owner").await;
    let key = fixture.key("child");
    fixture.children.create_or_update(&key, &owner, set("a", "1")).await.unwrap();
    fixture.children.delete(&fixture.children.get(&key).unwrap()).await.unwrap();
    assert!(fixture.children.get(&key).is_none());
    assert_eq!(
        fixture.children.create_or_update(&key, &owner, set("a", "1")).await.unwrap(),
        OperationResult::Created
    );
}

/// Returns children whose informer contains only their own writes.
fn without_watch(fixture: &Fixture) -> Children<ConfigMap> {
    let silent = tower::service_fn(|_| {
        std::future::pending::<Result<http::Response<kube::client::Body>, std::io::Error>>()
    });
    let informer = Informers::new(Client::new(silent, "default")).get::<ConfigMap>(Selection::Managed);
    Children::new(fixture.client.clone(), informer)
}

#[tokio::test]
async fn delete_removes_a_missing_object_from_the_cache() {
    let fixture = Fixture::new().await;
    let (owner, key, children) =
        (fixture.owner("owner").await, fixture.key("child"), without_watch(&fixture));
    children.create_or_update(&key, &owner, set("a", "1")).await.unwrap();
    let cached = children.get(&key).unwrap();
    fixture.config_maps().delete("child", &DeleteParams::default()).await.unwrap();
    children.delete(&cached).await.unwrap();
    assert!(children.get(&key).is_none());
}

#[tokio::test]
async fn delete_of_a_recreated_object_does_not_change_the_cache() {
    let fixture = Fixture::new().await;
    let (owner, key, children) =
        (fixture.owner("owner").await, fixture.key("child"), without_watch(&fixture));
    children.create_or_update(&key, &owner, set("a", "1")).await.unwrap();
    let cached = children.get(&key).unwrap();
    fixture.config_maps().delete("child", &DeleteParams::default()).await.unwrap();
    fixture.create(config_map("child", &[])).await;
    children.delete(&cached).await.unwrap();
    assert_eq!(children.get(&key).unwrap().uid(), cached.uid());
}

#[tokio::test]
async fn update_of_a_missing_object_creates_it() {
    let fixture = Fixture::new().await;
    let (owner, key, children) =
        (fixture.owner("owner").await, fixture.key("child"), without_watch(&fixture));
    children.create_or_update(&key, &owner, set("a", "1")).await.unwrap();
    fixture.config_maps().delete("child", &DeleteParams::default()).await.unwrap();
    assert_eq!(
        children.create_or_update(&key, &owner, set("a", "2")).await.unwrap(),
        OperationResult::Created
    );
    let live = fixture.config_maps().get("child").await.unwrap();
    assert_eq!(children.get(&key).unwrap().uid(), live.uid());
}
