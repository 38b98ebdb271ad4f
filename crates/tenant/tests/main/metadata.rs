//! Labels and annotations of the namespaces.

use cluster::wait::eventually;
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use serde_json::json;

use crate::support::{PATIENCE, World, status};

const NODE_SELECTOR: &str = "scheduler.alpha.kubernetes.io/node-selector";

async fn until(world: &World, end: &str, what: &str, is_so: impl Fn(&Namespace) -> bool) {
    eventually(what, PATIENCE, async || {
        let namespace = world.namespaces().get(&world.named(end)).await?;
        Ok(if is_so(&namespace) { Ok(()) } else { Err(namespace.metadata) })
    })
    .await
    .unwrap();
}

fn annotation<'n>(namespace: &'n Namespace, key: &str) -> Option<&'n str> {
    namespace.annotations().get(key).map(String::as_str)
}

#[tokio::test]
async fn the_node_selector_is_put_back_and_goes_with_the_spec() {
    let world = World::new().await;
    world.ready(json!({ "nodeSelector": { "pool": "a", "kubernetes.io/os": "linux" } }), &["a"]).await;
    let whole = Some("kubernetes.io/os=linux,pool=a");
    until(&world, "a", "the node selector", |found| annotation(found, NODE_SELECTOR) == whole).await;
    world.patch_namespace("a", json!({ "annotations": { NODE_SELECTOR: "pool=b", "theirs": "x" } })).await;
    until(&world, "a", "the repair", |found| annotation(found, NODE_SELECTOR) == whole).await;
    world.change(json!({ "nodeSelector": null })).await;
    until(&world, "a", "the end of it", |found| annotation(found, NODE_SELECTOR).is_none()).await;
    until(&world, "a", "the other annotation", |found| annotation(found, "theirs") == Some("x")).await;
    world.until_ready(&["a"]).await;
}

#[tokio::test]
async fn what_was_put_on_a_namespace_is_in_the_status_and_is_taken_away_when_it_is_no_longer_wanted() {
    let world = World::new().await;
    let list = json!([{
        "namespaceSelector": { "matchLabels": { "env": "dev" } },
        "labels": { "of": "{{ tenant.name }}" },
    }]);
    let additional = json!({ "labels": { "team": "blue" }, "annotations": { "note": "x" } });
    let options = json!({ "additionalMetadata": additional, "additionalMetadataList": list });
    world.create(json!({ "namespaceOptions": options })).await;
    world.join("a").await;
    world.patch_namespace("a", json!({ "labels": { "env": "dev" } })).await;
    until(&world, "a", "all labels", |found| {
        let labels = found.labels();
        labels.get("team").is_some_and(|team| team == "blue")
            && labels.get("of").is_some_and(|of| *of == world.name)
            && annotation(found, "note") == Some("x")
    })
    .await;
    let remembers = |tenant: &tenant::Tenant, keys: &[&str]| {
        let metadata = status(tenant).spaces[0].metadata.clone().unwrap_or_default();
        metadata.labels.keys().eq(keys)
    };
    world.until("the labels in the status", |tenant| remembers(tenant, &["of", "team"])).await;
    world.change(json!({ "namespaceOptions": { "additionalMetadata": null } })).await;
    until(&world, "a", "only the other label", |found| {
        !found.labels().contains_key("team")
            && found.labels().contains_key("of")
            && annotation(found, "note").is_none()
    })
    .await;
    world.until("one label in the status", |tenant| remembers(tenant, &["of"])).await;
    world.until_ready(&["a"]).await;
}
