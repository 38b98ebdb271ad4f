//! A reconcile without a change writes nothing, and each change needs only the necessary writes.

use harness::status::{assert_repairs, edits, patch_status};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;

use crate::support::TestEnv;

/// Returns a spec with quantities that the API server normalizes, and fields that it defaults.
fn spec() -> serde_json::Value {
    json!({
        "owners": [{ "kind": "User", "name": "alice", "labels": { "team": "blue" } }],
        "additionalRoleBindings": [{ "clusterRoleName": "view", "subjects": [{ "kind": "Group", "name": "devs" }] }],
        "nodeSelector": { "kubernetes.io/os": "linux" },
        "namespaceOptions": { "additionalMetadata": { "labels": { "team": "blue" } } },
        "limitRanges": { "items": [{ "limits": [
            { "type": "Container", "max": { "cpu": "1000m" }, "min": { "memory": "1024Mi" } },
        ] }] },
        "networkPolicies": { "items": [
            { "podSelector": {}, "egress": [{ "to": [{ "ipBlock": { "cidr": "192.168.0.0/12" } }] }] },
            { "ingress": [{ "ports": [{ "port": 80 }], "from": [] }] },
        ] },
        "resourceQuotas": { "items": [{ "hard": { "limits.cpu": "8000m", "pods": 10 }, "scopes": ["NotTerminating"] }] },
    })
}

#[tokio::test]
async fn writes_nothing_without_changes() {
    let env = TestEnv::new().await;
    env.ready(spec(), &["a", "b"]).await;
    let settled = Timestamp::now();

    // The annotation triggers reconciles without an effect. The other Tenant is ready after them.
    for round in 0..3 {
        env.patch_namespace("a", json!({ "annotations": { "round": round.to_string() } })).await;
    }
    let before = env.tenants().get(&env.name).await.unwrap();
    let other = TestEnv::new().await;
    other.ready(spec(), &["a"]).await;
    assert_eq!(env.writes(settled), [] as [String; 0]);
    let after = env.tenants().get(&env.name).await.unwrap();
    assert_eq!(after.resource_version(), before.resource_version());
}

#[tokio::test]
async fn new_namespace_needs_one_write_for_each_object() {
    let env = TestEnv::new().await;
    env.ready(spec(), &[]).await;
    let before = Timestamp::now();
    env.join("a").await;
    env.until_ready(&["a"]).await;
    let writes = env.writes(before);
    let count = |text: &str| writes.iter().filter(|write| write.starts_with(text)).count();
    for (text, expected) in [
        ("create limitranges", 1),
        ("create networkpolicies", 2),
        ("create resourcequotas", 1),
        ("create rolebindings", 3),
        ("patch namespaces", 1),
        ("update limitranges", 0),
        ("update networkpolicies", 0),
        ("update resourcequotas", 0),
        ("update rolebindings", 0),
        ("delete", 0),
    ] {
        assert_eq!(count(text), expected, "{text}: {writes:?}");
    }
    assert!(count("update tenants/status") <= 2, "{writes:?}");
    assert_eq!(count("patch tenants"), 1, "the finalizer: {writes:?}");
    assert_eq!(env.wasted_requests(before), [] as [String; 0]);
}

#[tokio::test]
async fn repairs_a_status_that_was_changed_by_hand_and_then_writes_nothing() {
    let env = TestEnv::new().await;
    env.ready(spec(), &["a"]).await;
    let before = Timestamp::now();
    let mut edits = edits("/status/size", json!(9));
    edits.extend([
        json!({ "op": "replace", "path": "/status/owners", "value": [{ "kind": "User", "name": "mallory" }] }),
        json!({ "op": "replace", "path": "/status/spaces/0/conditions/0/message", "value": "all is lost" }),
        json!({ "op": "remove", "path": "/status/spaces/0" }),
    ]);
    assert_repairs(&env.tenants(), &env.name, &edits).await.unwrap();

    // The webhook writes reservations, so the controller keeps them.
    let until = json!([{ "namespace": "x", "until": Timestamp::now() }]);
    let reserved = json!({ "op": "add", "path": "/status/reservations", "value": until });
    let reserved = patch_status(&env.tenants(), &env.name, &reserved).await.unwrap();
    TestEnv::new().await.ready(spec(), &["a"]).await;
    let after = env.tenants().get(&env.name).await.unwrap();
    assert_eq!(after.resource_version(), reserved.resource_version());
    let writes = env.writes(before);
    let (status, others): (Vec<_>, Vec<_>) =
        writes.iter().partition(|write| write.starts_with("update tenants/status"));
    assert!(status.len() <= 2 * edits.len(), "at most two writes for each edit: {status:?}");
    assert!(others.is_empty(), "{others:?}");
}
