//! A cluster that is as specified causes no requests, and few on the way there.

use harness::status::{assert_repairs, edits};
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::support::{TestEnv, status};

#[tokio::test]
async fn sends_no_requests_without_a_change() {
    let mut env = TestEnv::new().await;
    let cluster = env.ready("db", 2).await;
    // The last Event. Events are sent in order, and can be sent after the status that says ready.
    env.event("db", "MemberJoined", "db-2 has joined the cluster").await;
    let settled = Timestamp::now();
    let note = Patch::Merge(json!({"metadata": {"labels": {"note": "x"}}}));
    env.api::<Pod>().patch("db-1", &PatchParams::default(), &note).await.unwrap();
    env.ready("other", 1).await;

    let requests = env.harness.requests_in(&env.namespace).unwrap();
    let about_it = requests.filter(|entry| entry.name.starts_with("db") && entry.time > settled);
    assert_eq!(about_it.entries, []);
    let now = env.api::<postgres::PostgresCluster>().get("db").await.unwrap();
    assert_eq!(status(&now), status(&cluster));
}

#[tokio::test]
async fn creates_each_object_once() {
    let mut env = TestEnv::new().await;
    env.ready("db", 2).await;
    let requests = env.harness.requests_in(&env.namespace).unwrap().entries;
    // The API server can refuse a binding because it has not noticed the Role yet.
    let accepted: Vec<_> = requests.iter().filter(|entry| entry.code < 300).collect();
    let count = |resource: &str, verb: &str| {
        accepted.iter().filter(|entry| entry.resource == resource && entry.verb == verb).count()
    };
    for (resource, created) in [
        ("services", 4),
        ("poddisruptionbudgets", 1),
        ("leases", 1),
        ("serviceaccounts", 1),
        ("roles", 1),
        ("rolebindings", 1),
        ("persistentvolumeclaims", 2),
        ("pods", 2),
        ("secrets", 4),
    ] {
        assert_eq!((count(resource, "create"), count(resource, "update")), (created, 0), "{resource}");
    }
    assert_eq!(count("pods", "patch"), 1, "the role of the primary");
    let written = count("postgresclusters", "update");
    assert!(written <= 14, "{written} status writes");
    let (clusters, others): (Vec<_>, Vec<_>) = requests
        .iter()
        .filter(|entry| entry.verb == "get")
        .partition(|entry| entry.resource == "postgresclusters");
    let others: Vec<_> = others.iter().map(|entry| &*entry.name).collect();
    // While members are missing, the Secrets are read again every ten seconds.
    let times = requests.iter().map(|entry| entry.time);
    let took = times.clone().max().unwrap().duration_since(times.min().unwrap());
    let reads = 1 + usize::try_from(took.as_secs() / 10).unwrap();
    let secrets = ["db-app", "db-ca", "db-server", "db-replication"];
    for secret in secrets {
        let count = others.iter().filter(|read| **read == secret).count();
        assert!((1..=reads).contains(&count), "{count} reads of {secret} in {took}");
    }
    assert!(others.iter().all(|read| secrets.contains(read)), "{others:?}");
    // The children come in one reconcile, and each volume and each Pod in another one.
    assert!(clusters.len() <= 5, "{} reads of the cluster", clusters.len());
}

#[tokio::test]
async fn repairs_what_a_status_reports() {
    let mut env = TestEnv::new().await;
    env.ready("db", 1).await;
    let edits = edits("/status/readyMembers", json!(9));
    assert_repairs(&env.api::<postgres::PostgresCluster>(), "db", &edits).await.unwrap();
}
