//! GlobalTenantResources: scopes, selectors, and cluster-scoped objects.

use capsule::api::v1beta2::GlobalTenantResource;
use k8s_openapi::api::{
    core::v1::{ConfigMap, Namespace},
    rbac::v1::ClusterRole,
};
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::support::{CREATED_BY, MANAGED_BY, TestEnv, config_map, data, label, raw, until};

async fn admin_env(namespaces: &[&str]) -> TestEnv {
    let env = TestEnv::new(namespaces).await;
    env.bind_everywhere("replicator", "cluster-admin").await;
    env
}

fn cluster_role(name: &str) -> Value {
    json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": name }, "rules": [] })
}

#[tokio::test]
async fn cluster_scoped_objects_are_created_on_both_paths_and_pruned() {
    let env = admin_env(&["a"]).await;
    let template = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: { name: '{{ .tenant.metadata.name }}-generated' }\nrules: []\n";
    let spec = json!({ "resources": [{
        "rawItems": [cluster_role("{{tenant.name}}-raw")], "generators": [{ "template": template }],
    }] });
    let object = env.global_resource("g", spec).await;
    let resources = env.all::<GlobalTenantResource>();
    let ready = env.until_ready(&resources, &object.name_any(), 2).await;
    let status = ready.status.clone().unwrap();
    assert_eq!(status.selected_tenants, std::slice::from_ref(&env.name));
    assert!(
        status.processed_items.iter().all(|item| item.status.cluster_scoped && item.namespace.is_empty())
    );
    let roles = env.all::<ClusterRole>();
    for name in ["raw", "generated"] {
        let role = roles.get(&env.prefixed(name)).await.unwrap();
        let owners = role.metadata.owner_references.clone().unwrap();
        assert_eq!(
            (owners.len(), owners[0].kind.as_str(), owners[0].controller),
            (1, "GlobalTenantResource", None)
        );
        assert_eq!(owners[0].uid, ready.uid().unwrap());
        assert_eq!(label(&role.metadata, CREATED_BY), Some("replications"));
    }
    env.delete(&resources, &object.name_any()).await;
    env.until_gone(&resources, &object.name_any()).await;
    env.until_gone(&roles, &env.prefixed("raw")).await;
    env.until_gone(&roles, &env.prefixed("generated")).await;
}

#[tokio::test]
async fn scope_decides_how_often_objects_are_created() {
    let env = admin_env(&["a"]).await;
    let resources = env.all::<GlobalTenantResource>();
    for (scope, count, tenant) in
        [("Namespace", 2, &*env.name), ("Tenant", 1, &*env.name), ("None", 1, "None")]
    {
        let mut item =
            config_map(&format!("x-{}", scope.to_lowercase()), json!({ "tenant": "{{tenant.name}}" }));
        item["metadata"]["namespace"] = env.home().into();
        let mut spec = raw(vec![item]);
        spec["scope"] = scope.into();
        let object = env.global_resource(&scope.to_lowercase(), spec).await;
        let ready = env.until_ready(&resources, &object.name_any(), count).await;
        assert!(ready.status.unwrap().processed_items.iter().all(|item| item.tenant == tenant), "{scope}");
    }
    let x = env.api::<ConfigMap>("home").get("x-tenant").await.unwrap();
    assert_eq!(data(&x, "tenant"), Some(env.name.clone()));
    assert_eq!(
        data(&env.api::<ConfigMap>("home").get("x-none").await.unwrap(), "tenant").as_deref(),
        Some("")
    );
}

#[tokio::test]
async fn objects_are_pruned_when_a_selector_stops_matching() {
    let env = admin_env(&["a"]).await;
    let resources = env.all::<GlobalTenantResource>();
    let spec = json!({ "resources": [{
        "namespaceSelector": { "matchLabels": { "suffix": "a" } }, "rawItems": [config_map("x", json!({}))],
    }] });
    let object = env.global_resource("g", spec).await.name_any();
    env.until_ready(&resources, &object, 1).await;
    let relabel = |suffix: &str| Patch::Merge(json!({ "metadata": { "labels": { "suffix": suffix } } }));
    let namespaces = env.all::<Namespace>();
    namespaces.patch(&env.prefixed("a"), &PatchParams::default(), &relabel("b")).await.unwrap();
    env.until_gone(&env.api::<ConfigMap>("a"), "x").await;
    env.until_ready(&resources, &object, 0).await;
    namespaces.patch(&env.prefixed("a"), &PatchParams::default(), &relabel("a")).await.unwrap();
    env.until_ready(&resources, &object, 1).await;
    let unlabel = Patch::Merge(json!({ "metadata": { "labels": { "test": "other" } } }));
    env.all::<capsule::Tenant>().patch(&env.name, &PatchParams::default(), &unlabel).await.unwrap();
    env.until_gone(&env.api::<ConfigMap>("a"), "x").await;
    until(&resources, &object, "without Tenants", |object: &GlobalTenantResource| {
        let status = object.status.clone().unwrap();
        status.selected_tenants.is_empty() && status.size == 0
    })
    .await;
}

#[tokio::test]
async fn without_pruning_the_owner_reference_goes_and_the_object_stays() {
    let env = admin_env(&[]).await;
    let resources = env.all::<GlobalTenantResource>();
    let mut spec = raw(vec![config_map("x", json!({ "v": "1" }))]);
    spec["pruningOnDelete"] = false.into();
    let object = env.global_resource("g", spec).await.name_any();
    env.until_ready(&resources, &object, 1).await;
    let maps = env.api::<ConfigMap>("home");
    assert!(maps.get("x").await.unwrap().metadata.owner_references.is_some());
    env.delete(&resources, &object).await;
    env.until_gone(&resources, &object).await;
    let x = maps.get("x").await.unwrap();
    assert_eq!(x.metadata.owner_references, None);
    assert_eq!(
        (label(&x.metadata, CREATED_BY), label(&x.metadata, MANAGED_BY)),
        (Some("replications"), None)
    );
}

#[tokio::test]
async fn adopted_objects_have_no_owner_and_stay() {
    let env = admin_env(&[]).await;
    let resources = env.all::<GlobalTenantResource>();
    env.existing_config_map("home", "x", json!({ "v": "mine" })).await;
    let mut spec = raw(vec![config_map("x", json!({ "g": "1" }))]);
    spec["settings"] = json!({ "adopt": true });
    let object = env.global_resource("g", spec).await.name_any();
    env.until_ready(&resources, &object, 1).await;
    let maps = env.api::<ConfigMap>("home");
    assert_eq!(maps.get("x").await.unwrap().metadata.owner_references, None);
    env.delete(&resources, &object).await;
    env.until_gone(&resources, &object).await;
    assert_eq!(maps.get("x").await.unwrap().data.unwrap().len(), 1);
}

#[tokio::test]
async fn sources_can_be_in_any_namespace_and_collisions_are_told() {
    let env = admin_env(&["a"]).await;
    let resources = env.all::<GlobalTenantResource>();
    let context = json!({ "resources": [{ "index": "maps", "kind": "ConfigMap", "name": "kube-root-ca.crt", "namespace": "kube-system" }] });
    let template =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: x }\ndata: { count: '{{ len .maps }}' }\n";
    let spec = json!({ "resources": [{ "context": context, "generators": [{ "template": template }] }] });
    let object = env.global_resource("g", spec).await.name_any();
    env.until_ready(&resources, &object, 2).await;
    assert_eq!(data(&env.api::<ConfigMap>("a").get("x").await.unwrap(), "count").as_deref(), Some("1"));

    let mut role = cluster_role("{{tenant.name}}-collision");
    role["metadata"]["annotations"] = json!({ "in": "{{namespace}}" });
    let object = env.global_resource("c", raw(vec![role])).await.name_any();
    env.until_failed(&resources, &object, "with different contents").await;
}

#[tokio::test]
async fn without_an_account_the_manager_acts_with_its_own_permissions() {
    let env = TestEnv::new(&[]).await;
    let resources = env.all::<GlobalTenantResource>();
    let mut spec = raw(vec![config_map("x", json!({}))]);
    spec["serviceAccount"] = Value::Null;
    let object = env.global_resource("g", spec).await.name_any();
    let failed = env.until_failed(&resources, &object, "forbidden").await;
    assert_eq!(failed.status.unwrap().service_account.unwrap().user_name(), env.global.user);
    until(&resources, &object, "to keep its items", |object| {
        !object.status.clone().unwrap().processed_items.is_empty()
    })
    .await;
}
