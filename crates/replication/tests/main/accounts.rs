//! Who acts, and what happens if the account lacks permissions.

use capsule::api::v1beta2::{CapsuleConfiguration, TenantResource};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::support::{TestEnv, config_map, generator, raw, ready, until};

fn account(object: &TenantResource) -> Option<String> {
    object.status.clone().unwrap_or_default().service_account.map(|account| account.user_name())
}

async fn configure(env: &TestEnv, impersonation: Value) {
    let configuration = json!({
        "apiVersion": "capsule.clastix.io/v1beta2", "kind": "CapsuleConfiguration",
        "metadata": { "name": "default" }, "spec": { "impersonation": impersonation },
    });
    let api: Api<CapsuleConfiguration> = env.all();
    api.patch("default", &PatchParams::apply("test").force(), &Patch::Apply(configuration)).await.unwrap();
}

#[tokio::test]
async fn account_comes_from_the_configuration_or_the_spec_and_never_is_the_manager() {
    let env = TestEnv::new(&[]).await;
    let resources = env.tenant_resources();
    let spec = |account: Value| {
        let mut spec = raw(vec![config_map("x", json!({}))]);
        spec["serviceAccount"] = account;
        spec
    };
    env.tenant_resource("r", spec(Value::Null)).await;
    let failed = env.until_failed(&resources, "r", "no ServiceAccount acts for this TenantResource").await;
    assert_eq!(account(&failed), None);
    assert!(env.api::<ConfigMap>("home").get_opt("x").await.unwrap().is_none());

    env.account("deputy").await;
    env.bind("deputy", "home", "cluster-admin").await;
    configure(&env, json!({ "tenantDefaultServiceAccount": "deputy" })).await;
    let object = env.until_ready(&resources, "r", 1).await;
    assert_eq!(account(&object), Some(env.user("deputy")));

    env.change(&resources, "r", spec(json!({ "name": "replicator" }))).await;
    until(&resources, "r", "as replicator", |object| account(object) == Some(env.user("replicator"))).await;
    env.change(&resources, "r", json!({ "serviceAccount": null })).await;
    until(&resources, "r", "as deputy again", |object| account(object) == Some(env.user("deputy"))).await;
    configure(&env, json!({})).await;
    env.until_failed(&resources, "r", "no ServiceAccount acts").await;
}

#[tokio::test]
async fn missing_right_to_create_is_told_for_each_item_and_heals() {
    let env = TestEnv::new(&["a"]).await;
    let resources = env.tenant_resources();
    env.account("poor").await;
    env.bind("poor", "home", "cluster-admin").await;
    let mut spec = raw(vec![config_map("x", json!({}))]);
    spec["serviceAccount"] = json!({ "name": "poor" });
    env.tenant_resource("r", spec).await;
    let failed = env.until_failed(&resources, "r", "applying of 1 resources failed").await;
    let items = failed.status.unwrap().processed_items;
    let states: Vec<_> =
        items.iter().map(|item| (item.namespace.clone(), item.status.status.as_str())).collect();
    assert_eq!(states, [(env.prefixed("a"), "False"), (env.home(), "True")], "others are still applied");
    assert!(items[0].status.message.contains("forbidden"), "{}", items[0].status.message);
    env.bind("poor", "a", "cluster-admin").await;
    env.until_ready(&resources, "r", 2).await;
}

#[tokio::test]
async fn missing_right_to_read_sources_or_context_applies_nothing() {
    let env = TestEnv::new(&["a"]).await;
    let resources = env.tenant_resources();
    env.account("blind").await;
    env.secret("home", "s", json!({})).await;
    let secret = json!({ "kind": "Secret", "name": "s", "namespace": env.home() });
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: x }\n";
    let mut context = generator(template);
    context["resources"][0]["context"] = json!({ "resources": [secret.clone()] });
    context["serviceAccount"] = json!({ "name": "blind" });
    let copy =
        json!({ "serviceAccount": { "name": "blind" }, "resources": [{ "namespacedItems": [secret] }] });
    env.tenant_resource("context", context).await;
    env.tenant_resource("copy", copy).await;
    for name in ["context", "copy"] {
        let failed = env.until_failed(&resources, name, "forbidden").await;
        let message = ready(&failed).2;
        assert!(message.contains("cannot read Secret") && message.contains("blind"), "{message}");
        assert_eq!(failed.status.unwrap().size, 0);
    }
}

#[tokio::test]
async fn missing_right_to_delete_keeps_object_and_resource() {
    let env = TestEnv::new(&[]).await;
    let resources = env.tenant_resources();
    env.tenant_resource("r", raw(vec![config_map("x", json!({}))])).await;
    env.until_ready(&resources, "r", 1).await;
    let bindings = env.api::<RoleBinding>("home");
    env.delete(&bindings, "replicator-cluster-admin").await;
    env.bind("replicator", "home", "view").await;
    env.delete(&resources, "r").await;
    let failed = until(&resources, "r", "to fail", |object: &TenantResource| {
        ready(object).2.contains("pruning of 1 resources failed")
    })
    .await;
    assert!(failed.metadata.deletion_timestamp.is_some() && ready(&failed).2.contains("forbidden"));
    assert!(env.api::<ConfigMap>("home").get_opt("x").await.unwrap().is_some());
    env.bind("replicator", "home", "cluster-admin").await;
    env.until_gone(&resources, "r").await;
    env.until_gone(&env.api::<ConfigMap>("home"), "x").await;
}

#[tokio::test]
async fn all_requests_for_objects_are_those_of_the_account() {
    let env = TestEnv::new(&[]).await;
    env.tenant_resource("r", raw(vec![config_map("x", json!({}))])).await;
    env.until_ready(&env.tenant_resources(), "r", 1).await;
    assert!(env.api::<ServiceAccount>("home").get_opt("replicator").await.unwrap().is_some());
    let log = env.local.requests_in(&env.home()).unwrap();
    let writes: Vec<_> = log.entries.iter().filter(|entry| entry.resource == "configmaps").collect();
    assert!(writes.is_empty(), "the manager itself has written {} ConfigMaps", writes.len());
}
