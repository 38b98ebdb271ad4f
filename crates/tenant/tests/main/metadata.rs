//! Labels and annotations of namespaces.

use cluster::wait::eventually;
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use serde_json::json;

use crate::support::{TIMEOUT, TestEnv, status};

const NODE_SELECTOR: &str = "scheduler.alpha.kubernetes.io/node-selector";

async fn until(env: &TestEnv, suffix: &str, what: &str, is_so: impl Fn(&Namespace) -> bool) {
    eventually(what, TIMEOUT, async || {
        let namespace = env.namespaces().get(&env.prefixed(suffix)).await?;
        Ok(if is_so(&namespace) { Ok(()) } else { Err(namespace.metadata) })
    })
    .await
    .unwrap();
}

fn annotation<'n>(namespace: &'n Namespace, key: &str) -> Option<&'n str> {
    namespace.annotations().get(key).map(String::as_str)
}

#[tokio::test]
async fn restores_node_selector_and_removes_it_with_the_spec() {
    let env = TestEnv::new().await;
    env.ready(json!({ "nodeSelector": { "pool": "a", "kubernetes.io/os": "linux" } }), &["a"]).await;
    let whole = Some("kubernetes.io/os=linux,pool=a");
    until(&env, "a", "the node selector", |found| annotation(found, NODE_SELECTOR) == whole).await;
    env.patch_namespace("a", json!({ "annotations": { NODE_SELECTOR: "pool=b", "theirs": "x" } })).await;
    until(&env, "a", "the repair", |found| annotation(found, NODE_SELECTOR) == whole).await;
    env.change(json!({ "nodeSelector": null })).await;
    until(&env, "a", "the removal", |found| annotation(found, NODE_SELECTOR).is_none()).await;
    until(&env, "a", "the other annotation", |found| annotation(found, "theirs") == Some("x")).await;
    env.until_ready(&["a"]).await;
}

#[tokio::test]
async fn records_namespace_metadata_in_status_and_removes_it_with_the_spec() {
    let env = TestEnv::new().await;
    let list = json!([{
        "namespaceSelector": { "matchLabels": { "env": "dev" } },
        "labels": { "of": "{{ tenant.name }}" },
    }]);
    let additional = json!({ "labels": { "team": "blue" }, "annotations": { "note": "x" } });
    let options = json!({ "additionalMetadata": additional, "additionalMetadataList": list });
    env.create(json!({ "namespaceOptions": options })).await;
    env.join("a").await;
    env.patch_namespace("a", json!({ "labels": { "env": "dev" } })).await;
    until(&env, "a", "all labels", |found| {
        let labels = found.labels();
        labels.get("team").is_some_and(|team| team == "blue")
            && labels.get("of").is_some_and(|of| *of == env.name)
            && annotation(found, "note") == Some("x")
    })
    .await;
    let remembers = |tenant: &capsule::Tenant, keys: &[&str]| {
        let metadata = status(tenant).spaces[0].metadata.clone().unwrap_or_default();
        metadata.labels.keys().eq(keys)
    };
    env.until("the labels in the status", |tenant| remembers(tenant, &["of", "team"])).await;
    env.change(json!({ "namespaceOptions": { "additionalMetadata": null } })).await;
    until(&env, "a", "only the other label", |found| {
        !found.labels().contains_key("team")
            && found.labels().contains_key("of")
            && annotation(found, "note").is_none()
    })
    .await;
    env.until("one label in the status", |tenant| remembers(tenant, &["of"])).await;
    env.until_ready(&["a"]).await;
}
