//! Existing objects: adoption, merges, conflicts, and objects of older versions.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::support::{CREATED_BY, MANAGED_BY, TestEnv, config_map, data, label, raw};

fn with(settings: Value, item: Value) -> Value {
    let mut spec = raw(vec![item]);
    spec["settings"] = settings;
    spec
}

#[tokio::test]
async fn existing_objects_stay_untouched_without_adopt() {
    let env = TestEnv::new(&["a", "b"]).await;
    let resources = env.tenant_resources();
    for suffix in ["home", "a", "b"] {
        env.existing_config_map(suffix, "x", json!({ "v": "mine" })).await;
    }
    for name in ["one", "two"] {
        env.tenant_resource(name, raw(vec![config_map("x", json!({ name: "1" }))])).await;
    }
    for name in ["one", "two"] {
        let failed = env.until_failed(&resources, name, "applying of 3 resources failed").await;
        let items = failed.status.unwrap().processed_items;
        assert!(items.iter().all(|item| item.status.message.contains("cannot be adopted")), "{items:?}");
        assert!(items.iter().all(|item| !item.status.created && item.status.last_apply.is_none()));
    }
    let x = env.api::<ConfigMap>("a").get("x").await.unwrap();
    assert_eq!((x.data.unwrap().len(), x.metadata.labels), (1, None));

    env.change(&resources, "one", json!({ "settings": { "adopt": true } })).await;
    env.until_ready(&resources, "one", 3).await;
    env.delete(&resources, "two").await;
    env.until_gone(&resources, "two").await;
    assert_eq!(data(&env.api::<ConfigMap>("a").get("x").await.unwrap(), "v").as_deref(), Some("mine"));
}

#[tokio::test]
async fn two_resources_adopt_one_object_and_release_it() {
    let env = TestEnv::new(&[]).await;
    let resources = env.tenant_resources();
    env.existing_config_map("home", "x", json!({ "v": "mine" })).await;
    for name in ["one", "two"] {
        env.tenant_resource(name, with(json!({ "adopt": true }), config_map("x", json!({ name: "1" }))))
            .await;
    }
    for name in ["one", "two"] {
        let object = env.until_ready(&resources, name, 1).await;
        assert!(!object.status.unwrap().processed_items[0].status.created);
    }
    let maps = env.api::<ConfigMap>("home");
    let x = maps.get("x").await.unwrap();
    assert_eq!(x.data.as_ref().unwrap().len(), 3);
    assert_eq!(
        (label(&x.metadata, MANAGED_BY), label(&x.metadata, CREATED_BY)),
        (Some("replications"), None)
    );

    env.delete(&resources, "one").await;
    env.until_gone(&resources, "one").await;
    let x = maps.get("x").await.unwrap();
    assert_eq!((data(&x, "one"), data(&x, "two")), (None, Some("1".to_owned())));
    assert_eq!(label(&x.metadata, MANAGED_BY), Some("replications"));
    env.delete(&resources, "two").await;
    env.until_gone(&resources, "two").await;
    let x = maps.get("x").await.unwrap();
    assert_eq!((data(&x, "v").as_deref(), x.data.unwrap().len()), (Some("mine"), 1), "adopted objects stay");
    assert_eq!(x.metadata.labels, None);
}

#[tokio::test]
async fn two_resources_merge_conflict_and_force() {
    let env = TestEnv::new(&[]).await;
    let resources = env.tenant_resources();
    let maps = env.api::<ConfigMap>("home");
    env.tenant_resource("one", raw(vec![config_map("x", json!({ "a": "one" }))])).await;
    env.until_ready(&resources, "one", 1).await;
    env.tenant_resource("two", raw(vec![config_map("x", json!({ "b": "two" }))])).await;
    let two = env.until_ready(&resources, "two", 1).await;
    assert!(two.status.unwrap().processed_items[0].status.created);
    assert_eq!(maps.get("x").await.unwrap().data.unwrap().len(), 2);

    env.change(&resources, "two", raw(vec![config_map("x", json!({ "a": "two" }))])).await;
    let failed = env.until_failed(&resources, "two", "applying of 1 resources failed").await;
    let message = failed.status.unwrap().processed_items[0].status.message.clone();
    assert!(message.contains("conflict") && message.contains("spec.settings.force"), "{message}");
    assert_eq!(data(&maps.get("x").await.unwrap(), "a").as_deref(), Some("one"));

    env.change(&resources, "two", json!({ "settings": { "force": true } })).await;
    env.until_ready(&resources, "two", 1).await;
    assert_eq!(data(&maps.get("x").await.unwrap(), "a").as_deref(), Some("two"));

    // The object stays until the last resource releases it.
    env.delete(&resources, "two").await;
    env.until_gone(&resources, "two").await;
    assert_eq!(label(&maps.get("x").await.unwrap().metadata, CREATED_BY), Some("replications"));
    env.delete(&resources, "one").await;
    env.until_gone(&maps, "x").await;
}

#[tokio::test]
async fn objects_of_older_versions_count_as_created() {
    let env = TestEnv::new(&[]).await;
    let resources = env.tenant_resources();
    let maps = env.api::<ConfigMap>("home");
    env.existing_config_map("home", "x", json!({ "v": "old" })).await;
    let legacy = json!({ "metadata": { "labels": { "capsule.clastix.io/resources": "0" } } });
    maps.patch("x", &PatchParams::default(), &Patch::Merge(legacy)).await.unwrap();
    env.tenant_resource("r", with(json!({ "force": true }), config_map("x", json!({ "v": "new" })))).await;
    let object = env.until_ready(&resources, "r", 1).await;
    assert!(object.status.unwrap().processed_items[0].status.created);
    let x = maps.get("x").await.unwrap();
    assert_eq!(data(&x, "v").as_deref(), Some("new"));
    assert_eq!(label(&x.metadata, "capsule.clastix.io/resources"), None);
    assert_eq!(label(&x.metadata, CREATED_BY), Some("replications"));
}

#[tokio::test]
async fn objects_of_the_tenant_controller_are_never_adopted() {
    let env = TestEnv::new(&[]).await;
    env.existing_config_map("home", "x", json!({})).await;
    let managed = json!({ "metadata": { "labels": { MANAGED_BY: "controller" } } });
    env.api::<ConfigMap>("home").patch("x", &PatchParams::default(), &Patch::Merge(managed)).await.unwrap();
    let settings = json!({ "adopt": true, "force": true });
    env.tenant_resource("r", with(settings, config_map("x", json!({ "v": "1" })))).await;
    env.until_failed(&env.tenant_resources(), "r", "the Tenant controller manages it").await;
}
