//! A reconcile without a change sends no requests, and a change causes few.

use harness::status::{assert_repairs, edits};
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::support::{TestEnv, status};

#[tokio::test]
async fn sends_no_requests_without_a_change() {
    let env = TestEnv::new().await;
    let cache = env.ready("web", 2).await;
    let settled = Timestamp::now();

    // These changes of a Pod and of the Deployment trigger a reconcile without a change for the
    // Memcached. An annotation on the Deployment would create a new generation of it, and a
    // rollout.
    let note = Patch::Merge(json!({"metadata": {"labels": {"note": "x"}}}));
    let params = PatchParams::default();
    env.api::<Pod>().patch(&status(&cache).nodes[0], &params, &note).await.unwrap();
    env.deployments().patch("web", &params, &note).await.unwrap();
    env.ready("other", 1).await;

    let requests = env.harness.requests_in(&env.namespace).unwrap();
    let about_it = requests.filter(|entry| entry.name == "web" && entry.time > settled);
    let now = env.caches().get("web").await.unwrap();
    assert_eq!(status(&now), status(&cache));
    assert_eq!(about_it.entries, []);
    assert_eq!(now.metadata.resource_version, cache.metadata.resource_version);
}

#[tokio::test]
async fn creates_each_object_once_with_few_status_writes() {
    let env = TestEnv::new().await;
    env.ready("web", 3).await;
    let requests = env.harness.requests_in(&env.namespace).unwrap().entries;
    let count = |resource: &str, verb: &str| {
        requests.iter().filter(|entry| entry.resource == resource && entry.verb == verb).count()
    };
    for resource in ["deployments", "services", "poddisruptionbudgets"] {
        assert_eq!((count(resource, "create"), count(resource, "update")), (1, 0), "{resource}");
    }
    assert_eq!(count("memcacheds", "patch"), 1, "the finalizer");
    let written = count("memcacheds", "update");
    assert!(written <= 8, "{written} status writes");
    let reads: Vec<_> = requests.iter().filter(|entry| entry.verb == "get").collect();
    assert!(reads.is_empty(), "{reads:?}");
}

#[tokio::test]
async fn repairs_a_status_that_was_changed_by_hand_and_then_writes_nothing() {
    let env = TestEnv::new().await;
    env.ready("web", 2).await;
    // The audit log has a request some time after its response.
    let ready = Timestamp::now();
    let mut edits = edits("/status/readyReplicas", json!(9));
    edits.push(json!({ "op": "replace", "path": "/status/endpoints", "value": ["elsewhere:11211"] }));
    assert_repairs(&env.caches(), "web", &edits).await.unwrap();
    env.ready("other", 1).await;
    let writes = env.harness.requests_in(&env.namespace).unwrap().writes();
    let writes =
        writes.filter(|entry| entry.time > ready && entry.resource != "events" && entry.name == "web");
    assert_eq!(writes.entries.len(), edits.len(), "{writes:?}");
}
