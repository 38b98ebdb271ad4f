//! Nothing is written when nothing changed, and as little as can be when something did.

use harness::status::{assert_repairs, edits, patch_status};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;

use crate::support::World;

/// As large as the sample, with amounts that the API server spells otherwise and fields that it fills in.
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
async fn a_tenant_that_is_as_asked_costs_no_write() {
    let world = World::new().await;
    world.ready(spec(), &["a", "b"]).await;
    let settled = Timestamp::now();

    // A change of a namespace that means nothing to the Tenant makes the controller look at it; the change of
    // the other Tenant shows that it has.
    for round in 0..3 {
        world.patch_namespace("a", json!({ "annotations": { "round": round.to_string() } })).await;
    }
    let before = world.tenants().get(&world.name).await.unwrap();
    let other = World::new().await;
    other.ready(spec(), &["a"]).await;
    assert_eq!(world.writes(settled), [] as [String; 0]);
    let after = world.tenants().get(&world.name).await.unwrap();
    assert_eq!(after.resource_version(), before.resource_version());
}

#[tokio::test]
async fn a_namespace_that_joins_costs_one_write_for_each_object() {
    let world = World::new().await;
    world.ready(spec(), &[]).await;
    let before = Timestamp::now();
    world.join("a").await;
    world.until_ready(&["a"]).await;
    let writes = world.writes(before);
    let count = |words: &str| writes.iter().filter(|write| write.starts_with(words)).count();
    for (words, expected) in [
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
        assert_eq!(count(words), expected, "{words}: {writes:?}");
    }
    assert!(count("update tenants/status") <= 2, "{writes:?}");
    assert_eq!(count("patch tenants"), 1, "the finalizer: {writes:?}");
    assert_eq!(world.in_vain(before), [] as [String; 0]);
}

#[tokio::test]
async fn a_status_that_somebody_changed_is_repaired_and_then_nothing_is_written() {
    let world = World::new().await;
    world.ready(spec(), &["a"]).await;
    let before = Timestamp::now();
    let mut edits = edits("/status/size", json!(9));
    edits.extend([
        json!({ "op": "replace", "path": "/status/owners", "value": [{ "kind": "User", "name": "mallory" }] }),
        json!({ "op": "replace", "path": "/status/spaces/0/conditions/0/message", "value": "all is lost" }),
        json!({ "op": "remove", "path": "/status/spaces/0" }),
    ]);
    assert_repairs(&world.tenants(), &world.name, &edits).await.unwrap();

    // Admission writes these.
    let until = json!([{ "namespace": "x", "until": Timestamp::now() }]);
    let reserved = json!({ "op": "add", "path": "/status/reservations", "value": until });
    let reserved = patch_status(&world.tenants(), &world.name, &reserved).await.unwrap();
    World::new().await.ready(spec(), &["a"]).await;
    let after = world.tenants().get(&world.name).await.unwrap();
    assert_eq!(after.resource_version(), reserved.resource_version());
    let writes = world.writes(before);
    let (status, others): (Vec<_>, Vec<_>) =
        writes.iter().partition(|write| write.starts_with("update tenants/status"));
    assert!(status.len() <= 2 * edits.len(), "at most what is noted first, and what follows: {status:?}");
    assert!(others.is_empty(), "{others:?}");
}
