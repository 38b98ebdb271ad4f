//! Deletion of a TenantResource with and without pruning, and of its namespace.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::support::{CREATED_BY, MANAGED_BY, TestEnv, config_map, data, label, raw};

#[tokio::test]
async fn deletion_prunes_created_objects_in_all_namespaces() {
    let env = TestEnv::new(&["a"]).await;
    let resources = env.tenant_resources();
    env.tenant_resource("r", raw(vec![config_map("x", json!({}))])).await;
    env.until_ready(&resources, "r", 2).await;
    env.delete(&resources, "r").await;
    env.until_gone(&resources, "r").await;
    for suffix in ["home", "a"] {
        env.until_gone(&env.api::<ConfigMap>(suffix), "x").await;
    }
}

#[tokio::test]
async fn without_pruning_objects_stay_without_their_manager() {
    let env = TestEnv::new(&[]).await;
    let resources = env.tenant_resources();
    let mut spec = raw(vec![config_map("x", json!({ "v": "1" })), config_map("y", json!({}))]);
    spec["pruningOnDelete"] = false.into();
    env.tenant_resource("r", spec).await;
    env.until_ready(&resources, "r", 2).await;
    env.change(&resources, "r", raw(vec![config_map("x", json!({ "v": "1" }))])).await;
    env.until_ready(&resources, "r", 1).await;
    env.delete(&resources, "r").await;
    env.until_gone(&resources, "r").await;
    for name in ["x", "y"] {
        let object = env.api::<ConfigMap>("home").get(name).await.unwrap();
        assert_eq!(label(&object.metadata, CREATED_BY), Some("replications"), "{name}");
        assert_eq!(label(&object.metadata, MANAGED_BY), None, "{name}");
    }
    let x = env.api::<ConfigMap>("home").get("x").await.unwrap();
    assert_eq!(data(&x, "v").as_deref(), Some("1"));
}

#[tokio::test]
async fn namespace_of_the_resource_can_be_deleted() {
    let env = TestEnv::new(&["a"]).await;
    let resources = env.tenant_resources();
    env.tenant_resource("r", raw(vec![config_map("x", json!({}))])).await;
    env.until_ready(&resources, "r", 2).await;
    env.delete(&env.all::<Namespace>(), &env.home()).await;
    env.until_gone(&env.all::<Namespace>(), &env.home()).await;
}

#[tokio::test]
async fn an_object_that_was_deleted_is_restored_by_the_resync() {
    let env = TestEnv::new(&[]).await;
    let resources = env.tenant_resources();
    let mut spec = raw(vec![config_map("x", json!({ "v": "1" }))]);
    spec["resyncPeriod"] = "1s".into();
    env.tenant_resource("r", spec).await;
    env.until_ready(&resources, "r", 1).await;
    env.delete(&env.api::<ConfigMap>("home"), "x").await;
    env.until_config_map("home", "x", "restored", |x| data(x, "v").as_deref() == Some("1")).await;
}

#[tokio::test]
async fn labels_that_others_remove_are_restored() {
    let env = TestEnv::new(&[]).await;
    let resources = env.tenant_resources();
    let mut spec = raw(vec![config_map("x", json!({ "v": "1" }))]);
    spec["resyncPeriod"] = "1s".into();
    env.tenant_resource("r", spec).await;
    env.until_ready(&resources, "r", 1).await;
    let strip = Patch::Merge(json!({ "metadata": { "labels": null } }));
    env.api::<ConfigMap>("home").patch("x", &PatchParams::default(), &strip).await.unwrap();
    env.until_config_map("home", "x", "labelled", |x| label(&x.metadata, CREATED_BY) == Some("replications"))
        .await;
    env.until_ready(&resources, "r", 1).await;
    env.delete(&resources, "r").await;
    env.until_gone(&resources, "r").await;
    env.until_gone(&env.api::<ConfigMap>("home"), "x").await;
}
