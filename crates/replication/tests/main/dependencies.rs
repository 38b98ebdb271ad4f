//! `spec.dependsOn` and `spec.cordoned`.

use k8s_openapi::api::core::v1::ConfigMap;
use operator_core::conditions::find;
use serde_json::json;

use crate::support::{TestEnv, config_map, data, raw, until};

#[tokio::test]
async fn a_resource_waits_for_its_dependency() {
    let env = TestEnv::new(&[]).await;
    let resources = env.tenant_resources();
    let mut spec = raw(vec![config_map("second", json!({}))]);
    spec["dependsOn"] = json!([{ "name": "first" }]);
    env.tenant_resource("second", spec).await;
    env.until_failed(&resources, "second", "the dependency first does not exist").await;
    assert!(env.api::<ConfigMap>("home").get_opt("second").await.unwrap().is_none());

    env.existing_config_map("home", "first", json!({})).await;
    env.tenant_resource("first", raw(vec![config_map("first", json!({}))])).await;
    env.until_failed(&resources, "second", "the dependency first is not ready").await;
    env.delete(&env.api::<ConfigMap>("home"), "first").await;
    env.until_ready(&resources, "first", 1).await;
    env.until_ready(&resources, "second", 1).await;
}

#[tokio::test]
async fn a_cycle_is_told() {
    let env = TestEnv::new(&[]).await;
    for (name, other) in [("a", "b"), ("b", "a"), ("c", "c")] {
        env.tenant_resource(name, json!({ "resources": [], "dependsOn": [{ "name": other }] })).await;
    }
    for name in ["a", "b", "c"] {
        env.until_failed(&env.tenant_resources(), name, "spec.dependsOn forms a cycle").await;
    }
}

#[tokio::test]
async fn a_cordoned_resource_changes_nothing() {
    let env = TestEnv::new(&[]).await;
    let resources = env.tenant_resources();
    env.tenant_resource("r", raw(vec![config_map("x", json!({ "v": "1" }))])).await;
    env.until_ready(&resources, "r", 1).await;
    let mut spec = raw(vec![config_map("x", json!({ "v": "2" })), config_map("y", json!({}))]);
    spec["cordoned"] = true.into();
    env.change(&resources, "r", spec).await;
    let object = until(&resources, "r", "cordoned", |object| {
        let conditions = object.status.clone().unwrap_or_default().conditions;
        find(&conditions, "Cordoned").is_some_and(|one| one.status == "True" && one.reason == "Cordoned")
    })
    .await;
    assert_eq!(object.status.unwrap().observed_generation, object.metadata.generation);
    let x = env.api::<ConfigMap>("home").get("x").await.unwrap();
    assert_eq!(data(&x, "v").as_deref(), Some("1"));
    assert!(env.api::<ConfigMap>("home").get_opt("y").await.unwrap().is_none());

    env.change(&resources, "r", json!({ "cordoned": false })).await;
    let object = env.until_ready(&resources, "r", 2).await;
    let conditions = object.status.unwrap().conditions;
    assert!(find(&conditions, "Cordoned").is_some_and(|one| one.status == "False" && one.reason == "Active"));
}
