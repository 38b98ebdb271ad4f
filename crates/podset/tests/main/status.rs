//! Repair of a status that another client changed.

use harness::status::{assert_repairs, foreign_condition, patch_status};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;

use crate::support::TestEnv;

#[tokio::test]
async fn repairs_each_status_change_with_one_write() {
    let env = TestEnv::new().await;
    env.create("web", json!({ "replicas": 2 })).await;
    env.until_ready("web", 2).await;
    // The audit log has a request some time after its response.
    let ready = Timestamp::now();
    let edits = [
        json!({ "op": "replace", "path": "/status/replicas", "value": 9 }),
        json!({ "op": "replace", "path": "/status/podNames", "value": ["web-pod-7"] }),
        json!({ "op": "replace", "path": "/status/observedGeneration", "value": 7 }),
        json!({ "op": "replace", "path": "/status/conditions/0/message", "value": "changed" }),
        json!({ "op": "remove", "path": "/status/conditions/0" }),
        json!({ "op": "remove", "path": "/status" }),
    ];
    assert_repairs(&env.sets(), "web", &edits).await.unwrap();

    let audited = json!({ "op": "add", "path": "/status/conditions/-", "value": foreign_condition() });
    let audited = patch_status(&env.sets(), "web", &audited).await.unwrap();
    env.create("other", json!({ "replicas": 1 })).await;
    env.until_ready("other", 1).await;
    let now = env.sets().get("web").await.unwrap();
    assert_eq!(now.resource_version(), audited.resource_version(), "conditions of other types are preserved");
    let writes =
        env.harness.requests_in(&env.namespace).unwrap().writes().filter(|entry| {
            entry.time > ready && entry.resource != "events" && entry.name.starts_with("web")
        });
    assert_eq!(writes.entries.len(), edits.len(), "{writes:?}");
}
