//! A status that somebody changed by hand.

use harness::status::{foreign_condition, patch_status, repaired_after_each};
use kube::ResourceExt;
use serde_json::json;

use crate::support::World;

#[tokio::test]
async fn a_status_that_somebody_changed_is_repaired_and_then_nothing_is_written() {
    let world = World::new().await;
    world.create("web", json!({ "replicas": 2 })).await;
    world.until_ready("web", 2).await;
    let writes = || {
        let writes = world.harness.requests_in(&world.namespace).unwrap().writes();
        writes.filter(|entry| entry.resource != "events" && entry.name.starts_with("web")).entries.len()
    };
    let before = writes();
    let edits = [
        json!({ "op": "replace", "path": "/status/replicas", "value": 9 }),
        json!({ "op": "replace", "path": "/status/podNames", "value": ["web-pod-7"] }),
        json!({ "op": "replace", "path": "/status/observedGeneration", "value": 7 }),
        json!({ "op": "replace", "path": "/status/conditions/0/message", "value": "all is lost" }),
        json!({ "op": "remove", "path": "/status/conditions/0" }),
        json!({ "op": "remove", "path": "/status" }),
    ];
    repaired_after_each(&world.sets(), "web", &edits).await.unwrap();

    let audited = json!({ "op": "add", "path": "/status/conditions/-", "value": foreign_condition() });
    let audited = patch_status(&world.sets(), "web", &audited).await.unwrap();
    world.create("other", json!({ "replicas": 1 })).await;
    world.until_ready("other", 1).await;
    let now = world.sets().get("web").await.unwrap();
    assert_eq!(now.resource_version(), audited.resource_version(), "conditions of others stay");
    assert_eq!(writes() - before, edits.len());
}
