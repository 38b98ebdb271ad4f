//! Raw items, generators, and copies are created, updated, and pruned.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::support::{
    CREATED_BY, FINALIZER, MANAGED_BY, TestEnv, config_map, data, generator, label, raw, until,
};

#[tokio::test]
async fn raw_items_are_created_updated_and_pruned() {
    let env = TestEnv::new(&["a"]).await;
    let resources = env.tenant_resources();
    let items = |value: &str| {
        vec![config_map("one", json!({ "v": value, "in": "{{namespace}}" })), config_map("two", json!({}))]
    };
    env.tenant_resource("r", raw(items("1"))).await;
    let object = env.until_ready(&resources, "r", 4).await;
    assert_eq!(object.metadata.finalizers.as_deref(), Some([FINALIZER.to_owned()].as_slice()));
    let status = object.status.unwrap();
    assert_eq!(status.size, 4);
    assert_eq!(status.service_account.unwrap().user_name(), env.user("replicator"));
    for item in &status.processed_items {
        assert!(item.status.created && item.status.last_apply.is_some() && !item.status.cluster_scoped);
        assert_eq!((item.tenant.as_str(), item.status.type_.as_str()), (env.name.as_str(), "Ready"));
        assert!(["0/raw-0", "0/raw-1"].contains(&item.origin.as_str()), "{}", item.origin);
    }
    let one = env.api::<ConfigMap>("a").get("one").await.unwrap();
    assert_eq!(data(&one, "in"), Some(env.prefixed("a")));
    assert_eq!(label(&one.metadata, CREATED_BY), Some("replications"));
    assert_eq!(label(&one.metadata, MANAGED_BY), Some("replications"));
    assert!(one.metadata.owner_references.is_none());

    env.change(&resources, "r", raw(items("2"))).await;
    env.until_config_map("a", "one", "updated", |one| data(one, "v").as_deref() == Some("2")).await;
    env.change(&resources, "r", raw(vec![config_map("two", json!({ "v": "3" }))])).await;
    env.until_gone(&env.api::<ConfigMap>("a"), "one").await;
    env.until_ready(&resources, "r", 2).await;
    let two = env.api::<ConfigMap>("home").get("two").await.unwrap();
    assert_eq!(data(&two, "v").as_deref(), Some("3"), "it moved to another origin");
    assert_eq!(label(&two.metadata, CREATED_BY), Some("replications"));
    let managers = two.metadata.managed_fields.unwrap();
    assert_eq!(managers.len(), 1, "the former origin is released: {managers:?}");
}

#[tokio::test]
async fn a_new_namespace_gets_the_items_and_a_terminating_one_loses_them() {
    let env = TestEnv::new(&[]).await;
    let resources = env.tenant_resources();
    env.tenant_resource(
        "r",
        json!({ "resyncPeriod": "0", "resources": [{ "rawItems": [config_map("x", json!({}))] }] }),
    )
    .await;
    env.until_ready(&resources, "r", 1).await;
    env.join("late").await;
    env.until_ready(&resources, "r", 2).await;
    env.until_config_map("late", "x", "to exist", |_| true).await;

    // A finalizer keeps the namespace terminating.
    let hold = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    env.existing_config_map("late", "held", json!({})).await;
    let maps = env.api::<ConfigMap>("late");
    maps.patch("held", &PatchParams::default(), &Patch::Merge(hold)).await.unwrap();
    env.delete(&env.all::<Namespace>(), &env.prefixed("late")).await;
    env.change(&resources, "r", raw(vec![config_map("x", json!({ "v": "2" }))])).await;
    env.until_ready(&resources, "r", 1).await;
    env.until_config_map("home", "x", "updated", |x| data(x, "v").as_deref() == Some("2")).await;
    let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    maps.patch("held", &PatchParams::default(), &release).await.unwrap();
}

#[tokio::test]
async fn foreign_namespaces_are_overridden_on_both_paths() {
    let env = TestEnv::new(&["a"]).await;
    let resources = env.tenant_resources();
    let mut item = config_map("{{tenant.name}}-raw", json!({}));
    item["metadata"]["namespace"] = "kube-system".into();
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: generated\n  namespace: kube-system\n\
        data:\n  tenant: {{ .tenant.metadata.name }}\n  namespace: {{ .namespace.metadata.name }}\n";
    let spec = json!({ "resources": [{ "rawItems": [item], "generators": [{ "template": template }] }] });
    env.tenant_resource("r", spec).await;
    let object = env.until_ready(&resources, "r", 4).await;
    let namespaces: Vec<_> =
        object.status.unwrap().processed_items.into_iter().map(|item| item.namespace).collect();
    assert!(namespaces.iter().all(|name| name.starts_with(&env.name)), "{namespaces:?}");
    let generated = env.api::<ConfigMap>("a").get("generated").await.unwrap();
    assert_eq!(data(&generated, "tenant"), Some(env.name.clone()));
    assert_eq!(data(&generated, "namespace"), Some(env.prefixed("a")));
    let system = kube::Api::<ConfigMap>::namespaced(env.client.clone(), "kube-system");
    assert!(system.get_opt("generated").await.unwrap().is_none());
    assert!(system.get_opt(&format!("{}-raw", env.name)).await.unwrap().is_none());
}

#[tokio::test]
async fn copies_lose_selector_labels_and_skip_their_own_namespace() {
    let env = TestEnv::new(&["a", "b"]).await;
    let resources = env.tenant_resources();
    env.secret("home", "source", json!({ "copy": "yes", "team": "x" })).await;
    let item =
        json!({ "apiVersion": "v1", "kind": "Secret", "selector": { "matchLabels": { "copy": "yes" } } });
    env.tenant_resource("r", json!({ "resources": [{ "namespacedItems": [item] }] })).await;
    let object = env.until_ready(&resources, "r", 2).await;
    assert!(object.status.unwrap().processed_items.iter().all(|item| item.origin == "replica"));
    let copy = env.api::<Secret>("a").get("source").await.unwrap();
    assert_eq!((label(&copy.metadata, "copy"), label(&copy.metadata, "team")), (None, Some("x")));
    assert_eq!(copy.data.unwrap()["key"].0, b"hunter2");
    let source = env.api::<Secret>("home").get("source").await.unwrap();
    assert_eq!((label(&source.metadata, "copy"), label(&source.metadata, CREATED_BY)), (Some("yes"), None));

    env.delete(&env.api::<Secret>("home"), "source").await;
    let request =
        json!({ "metadata": { "annotations": { "reconcile.projectcapsule.dev/requestedAt": "now" } } });
    resources.patch("r", &PatchParams::default(), &Patch::Merge(request)).await.unwrap();
    env.until_gone(&env.api::<Secret>("a"), "source").await;
    until(&resources, "r", "without the request", |object| object.metadata.annotations.is_none()).await;
}

#[tokio::test]
async fn namespace_selector_and_additional_metadata_apply() {
    let env = TestEnv::new(&["a", "b"]).await;
    let resources = env.tenant_resources();
    let spec = json!({ "resources": [{
        "namespaceSelector": { "matchLabels": { "suffix": "a" } },
        "rawItems": [config_map("x", json!({}))],
        "additionalMetadata": { "labels": { "for": "{{tenant.name}}" }, "annotations": { "in": "{{namespace}}" } },
    }] });
    env.tenant_resource("r", spec).await;
    env.until_ready(&resources, "r", 1).await;
    let x = env.api::<ConfigMap>("a").get("x").await.unwrap();
    assert_eq!(label(&x.metadata, "for"), Some(env.name.as_str()));
    assert_eq!(x.metadata.annotations.unwrap()["in"], env.prefixed("a"));

    let relabel = Patch::Merge(json!({ "metadata": { "labels": { "suffix": "other" } } }));
    let namespaces = env.all::<Namespace>();
    namespaces.patch(&env.prefixed("a"), &PatchParams::default(), &relabel).await.unwrap();
    env.until_gone(&env.api::<ConfigMap>("a"), "x").await;
    let object = env.until_ready(&resources, "r", 0).await;
    until(&resources, "r", "without its finalizer", |object| object.metadata.finalizers.is_none()).await;
    assert_eq!(object.status.unwrap().size, 0);
}

#[tokio::test]
async fn raw_item_and_generator_merge_on_one_object() {
    let env = TestEnv::new(&[]).await;
    let resources = env.tenant_resources();
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: x }\ndata: { generated: '1' }\n";
    let spec = json!({ "resources": [{
        "rawItems": [config_map("x", json!({ "raw": "1" }))], "generators": [{ "template": template }],
    }] });
    env.tenant_resource("r", spec).await;
    env.until_ready(&resources, "r", 2).await;
    let x = env.api::<ConfigMap>("home").get("x").await.unwrap();
    assert_eq!((data(&x, "raw"), data(&x, "generated")), (Some("1".to_owned()), Some("1".to_owned())));

    env.change(
        &resources,
        "r",
        json!({ "resources": [{ "rawItems": [config_map("x", json!({ "raw": "1" }))] }] }),
    )
    .await;
    env.until_ready(&resources, "r", 1).await;
    let x = env.api::<ConfigMap>("home").get("x").await.unwrap();
    assert_eq!((data(&x, "raw"), data(&x, "generated")), (Some("1".to_owned()), None));
}

#[tokio::test]
async fn an_annotation_adds_no_document() {
    let env = TestEnv::new(&[]).await;
    let resources = env.tenant_resources();
    let hostile = "x\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: { name: evil }";
    let annotate = Patch::Merge(json!({ "metadata": { "annotations": { "note": hostile } } }));
    let namespaces = env.all::<Namespace>();
    namespaces.patch(&env.home(), &PatchParams::default(), &annotate).await.unwrap();
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: x }\ndata:\n  note: {{ .namespace.metadata.annotations.note }}\n";
    env.tenant_resource("r", generator(template)).await;
    env.until_ready(&resources, "r", 1).await;
    let x = env.api::<ConfigMap>("home").get("x").await.unwrap();
    assert_eq!(data(&x, "note").as_deref(), Some(hostile));
    assert!(env.api::<ConfigMap>("home").get_opt("evil").await.unwrap().is_none());
}
