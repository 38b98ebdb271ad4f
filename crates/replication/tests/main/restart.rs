//! A new process takes over what another one has begun.

use harness::Instance;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use replication::TenantResourceController;
use serde_json::json;

use crate::support::{TestEnv, config_map, raw, until};

#[tokio::test]
async fn a_second_instance_changes_nothing() {
    let env = TestEnv::new(&["a"]).await;
    let resources = env.tenant_resources();
    env.tenant_resource("r", raw(vec![config_map("x", json!({ "v": "1" }))])).await;
    env.until_ready(&resources, "r", 2).await;
    let version = env.api::<ConfigMap>("a").get("x").await.unwrap().resource_version();
    let instance = Instance::of::<TenantResourceController>(&env.local, &env.home()).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    drop(instance);
    assert_eq!(env.api::<ConfigMap>("a").get("x").await.unwrap().resource_version(), version);
    env.until_ready(&resources, "r", 2).await;
}

/// A crash between the write of an object and that of the status leaves an item that the status only
/// announces. It is recognized by its field manager, and pruned.
#[tokio::test]
async fn an_announced_item_that_was_applied_is_pruned() {
    let env = TestEnv::new(&[]).await;
    let resources = env.tenant_resources();
    env.tenant_resource("r", raw(vec![config_map("x", json!({})), config_map("y", json!({}))])).await;
    let object = env.until_ready(&resources, "r", 2).await;
    // What a crash before the last status write leaves, together with a change of the spec.
    env.change(&resources, "r", json!({ "cordoned": true })).await;
    until(&resources, "r", "cordoned", |object| {
        object.status.clone().unwrap().observed_generation == object.metadata.generation
    })
    .await;
    let mut items = object.status.unwrap().processed_items;
    for item in &mut items {
        item.status.last_apply = None;
        item.status.created = false;
        "Unknown".clone_into(&mut item.status.status);
    }
    let patch = Patch::Merge(json!({ "status": { "processedItems": items } }));
    resources.patch_status("r", &PatchParams::default(), &patch).await.unwrap();
    let mut spec = raw(vec![config_map("x", json!({}))]);
    spec["cordoned"] = false.into();
    env.change(&resources, "r", spec).await;
    env.until_gone(&env.api::<ConfigMap>("home"), "y").await;
    let object = env.until_ready(&resources, "r", 1).await;
    let item = &object.status.unwrap().processed_items[0];
    assert!(item.status.created && item.status.last_apply.is_some());
}

/// The status is no proof of ownership: only an object that a replication has applied is deleted.
#[tokio::test]
async fn a_forged_item_deletes_nothing() {
    let env = TestEnv::new(&[]).await;
    let resources = env.tenant_resources();
    env.tenant_resource("r", raw(vec![config_map("x", json!({}))])).await;
    env.until_ready(&resources, "r", 1).await;
    env.existing_config_map("home", "mine", json!({})).await;
    let forged = |namespace: &str, name: &str| {
        json!({
            "tenant": env.name, "origin": "0/raw-9", "version": "v1", "kind": "ConfigMap", "name": name,
            "namespace": namespace,
            "status": { "type": "Ready", "status": "True", "created": true, "lastApply": "2026-01-01T00:00:00Z" },
        })
    };
    let items = json!([forged(&env.home(), "mine"), forged("kube-system", "kube-root-ca.crt")]);
    let patch = Patch::Merge(json!({ "status": { "processedItems": items } }));
    resources.patch_status("r", &PatchParams::default(), &patch).await.unwrap();
    env.until_ready(&resources, "r", 1).await;
    assert!(env.api::<ConfigMap>("home").get_opt("mine").await.unwrap().is_some());
}
