//! Finalizers.

use kube::{
    Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use operator_core::{
    error::is_conflict,
    finalizer::{add, has, remove},
};
use serde_json::json;

use crate::support::{Fixture, config_map};

const FINALIZER: &str = "example.com/finalizer";
const OTHER_FINALIZER: &str = "example.com/other";

#[tokio::test]
async fn adds_and_removes_a_finalizer_once() {
    let fixture = Fixture::new().await;
    let object = fixture.create(config_map("object", &[])).await;
    let changed = add(&fixture.client, &object, FINALIZER).await.unwrap().expect("it was missing");
    assert!(has(&changed, FINALIZER));
    assert!(add(&fixture.client, &changed, FINALIZER).await.unwrap().is_none());
    remove(&fixture.client, &changed, FINALIZER).await.unwrap();
    let live = fixture.config_maps().get("object").await.unwrap();
    assert!(!has(&live, FINALIZER));
}

#[tokio::test]
async fn concurrent_change_keeps_other_finalizers() {
    let fixture = Fixture::new().await;
    let object = fixture.create(config_map("object", &[])).await;
    let patch = Patch::Merge(json!({"metadata": {"finalizers": [OTHER_FINALIZER]}}));
    fixture.config_maps().patch("object", &PatchParams::default(), &patch).await.unwrap();
    let error = add(&fixture.client, &object, FINALIZER).await.unwrap_err();
    assert!(error.api_error().is_some_and(is_conflict), "{error}");
    let updated = fixture.config_maps().get("object").await.unwrap();
    add(&fixture.client, &updated, FINALIZER).await.unwrap();
    let both = fixture.config_maps().get("object").await.unwrap();
    remove(&fixture.client, &both, FINALIZER).await.unwrap();
    let mut left = fixture.config_maps().get("object").await.unwrap();
    assert_eq!(left.finalizers(), [OTHER_FINALIZER]);
    left.finalizers_mut().clear();
    fixture.config_maps().replace("object", &kube::api::PostParams::default(), &left).await.unwrap();
}

#[tokio::test]
async fn adds_no_finalizer_to_objects_being_deleted() {
    let fixture = Fixture::new().await;
    let mut object = config_map("object", &[]);
    object.meta_mut().finalizers = Some(vec![OTHER_FINALIZER.to_owned()]);
    fixture.create(object).await;
    fixture.config_maps().delete("object", &DeleteParams::default()).await.unwrap();
    let deleting = fixture.config_maps().get("object").await.unwrap();
    assert!(add(&fixture.client, &deleting, FINALIZER).await.unwrap().is_none());
    remove(&fixture.client, &deleting, OTHER_FINALIZER).await.unwrap();
    assert!(fixture.config_maps().get_opt("object").await.unwrap().is_none());
    remove(&fixture.client, &deleting, OTHER_FINALIZER).await.expect("a missing object is no error");
}
