//! What the finalizer functions promise.

use kube::{
    Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use operator_core::{
    error::is_conflict,
    finalizer::{add, has, remove},
};
use serde_json::json;

use crate::support::{World, config_map};

const OURS: &str = "example.com/ours";
const THEIRS: &str = "example.com/theirs";

#[tokio::test]
async fn a_finalizer_is_added_once_and_removed_once() {
    let world = World::new().await;
    let object = world.create(config_map("held", &[])).await;
    let held = add(&world.client, &object, OURS).await.unwrap().expect("it was missing");
    assert!(has(&held, OURS));
    assert!(add(&world.client, &held, OURS).await.unwrap().is_none());
    remove(&world.client, &held, OURS).await.unwrap();
    let freed = world.config_maps().get("held").await.unwrap();
    assert!(!has(&freed, OURS));
}

#[tokio::test]
async fn a_finalizer_of_somebody_else_is_not_lost_to_a_race() {
    let world = World::new().await;
    let object = world.create(config_map("held", &[])).await;
    let theirs = Patch::Merge(json!({"metadata": {"finalizers": [THEIRS]}}));
    world.config_maps().patch("held", &PatchParams::default(), &theirs).await.unwrap();
    let error = add(&world.client, &object, OURS).await.unwrap_err();
    assert!(error.api_error().is_some_and(is_conflict), "{error}");
    let fresh = world.config_maps().get("held").await.unwrap();
    add(&world.client, &fresh, OURS).await.unwrap();
    let both = world.config_maps().get("held").await.unwrap();
    remove(&world.client, &both, OURS).await.unwrap();
    let mut left = world.config_maps().get("held").await.unwrap();
    assert_eq!(left.finalizers(), [THEIRS]);
    left.finalizers_mut().clear();
    world.config_maps().replace("held", &kube::api::PostParams::default(), &left).await.unwrap();
}

#[tokio::test]
async fn an_object_that_is_being_deleted_gets_no_finalizer() {
    let world = World::new().await;
    let mut object = config_map("held", &[]);
    object.meta_mut().finalizers = Some(vec![THEIRS.to_owned()]);
    world.create(object).await;
    world.config_maps().delete("held", &DeleteParams::default()).await.unwrap();
    let deleting = world.config_maps().get("held").await.unwrap();
    assert!(add(&world.client, &deleting, OURS).await.unwrap().is_none());
    remove(&world.client, &deleting, THEIRS).await.unwrap();
    assert!(world.config_maps().get_opt("held").await.unwrap().is_none());
    remove(&world.client, &deleting, THEIRS).await.expect("gone is success");
}
