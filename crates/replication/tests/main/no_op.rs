//! A resync sends no write.

use k8s_openapi::{api::core::v1::ConfigMap, jiff::Timestamp};
use kube::ResourceExt;
use serde_json::json;
use tokio::time::{Duration, sleep};

use crate::support::{TestEnv, config_map, raw};

#[tokio::test]
async fn resync_writes_nothing() {
    let env = TestEnv::new(&["a"]).await;
    let resources = env.tenant_resources();
    env.secret("home", "s", json!({ "copy": "yes" })).await;
    let mut spec = raw(vec![config_map("x", json!({ "v": "1" })), config_map("y", json!({}))]);
    spec["resyncPeriod"] = "1s".into();
    spec["resources"][0]["namespacedItems"] =
        json!([{ "kind": "Secret", "selector": { "matchLabels": { "copy": "yes" } } }]);
    env.tenant_resource("r", spec).await;
    let before = env.until_ready(&resources, "r", 5).await;
    let x = env.api::<ConfigMap>("a").get("x").await.unwrap();
    let since = Timestamp::now();
    // Several resyncs.
    sleep(Duration::from_secs(5)).await;
    let after = resources.get("r").await.unwrap();
    assert_eq!(after.resource_version(), before.resource_version());
    assert_eq!(env.api::<ConfigMap>("a").get("x").await.unwrap().resource_version(), x.resource_version());
    let log = env.local.requests().unwrap();
    let is_of_test = |namespace: &str| namespace.starts_with(&env.name);
    let writes: Vec<_> = log
        .entries
        .iter()
        .filter(|entry| entry.time > since && entry.is_write() && is_of_test(&entry.namespace))
        .map(|entry| format!("{} {} {}", entry.verb, entry.resource, entry.name))
        .collect();
    assert!(writes.is_empty(), "{writes:?}");
}
