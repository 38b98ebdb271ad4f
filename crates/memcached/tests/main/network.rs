//! The optional NetworkPolicy.

use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};

use crate::support::World;

fn policies(world: &World) -> Api<NetworkPolicy> {
    world.api()
}

async fn ingress(world: &World) -> Value {
    let policy = policies(world).get("web").await.unwrap();
    serde_json::to_value(policy.spec.unwrap().ingress.unwrap()).unwrap()
}

#[tokio::test]
async fn creates_updates_and_deletes_policy_with_the_option() {
    let world = World::new().await;
    world.ready("web", 1).await;
    assert!(policies(&world).get_opt("web").await.unwrap().is_none());

    let front = json!({"podSelector": {"matchLabels": {"tier": "front"}}});
    world.change("web", json!({"networkPolicy": {"from": [front]}})).await;
    world.until_ready("web", 1).await;
    let cache = json!({"port": "memcached", "protocol": "TCP"});
    assert_eq!(ingress(&world).await, json!([{"from": [front], "ports": [cache]}]));
    let policy = policies(&world).get("web").await.unwrap();
    let selected = policy.spec.unwrap().pod_selector.unwrap().match_labels.unwrap();
    assert_eq!(selected["memcached_cr"], "web");

    let monitoring = json!({"namespaceSelector": {"matchLabels": {"name": "monitoring"}}});
    let with_metrics =
        json!({"metrics": {}, "networkPolicy": {"from": [front], "metricsFrom": [monitoring]}});
    world.change("web", with_metrics).await;
    world.until_ready("web", 1).await;
    let metrics = json!({"port": "metrics", "protocol": "TCP"});
    let wanted = json!([
        {"from": [front], "ports": [cache, metrics]},
        {"from": [monitoring], "ports": [metrics]},
    ]);
    assert_eq!(ingress(&world).await, wanted);

    world.change("web", json!({"networkPolicy": null})).await;
    world.until_ready("web", 1).await;
    world.until_gone::<NetworkPolicy>("web").await;
}

#[tokio::test]
async fn accepts_all_forms_of_peers_without_repeated_updates() {
    let world = World::new().await;
    let from = json!([
        {"podSelector": {}},
        {"podSelector": {"matchLabels": {}}, "namespaceSelector": {}},
        {"namespaceSelector": {"matchExpressions": [
            {"key": "example.com/team", "operator": "NotIn", "values": ["a", "b"]},
            {"key": "old", "operator": "DoesNotExist"},
        ]}},
        {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "10.2.3.4/32"]}},
        {"ipBlock": {"cidr": "fd00::/8"}},
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": []}},
    ]);
    world.create("web", json!({"size": 1, "networkPolicy": {"from": from}})).await;
    world.until_ready("web", 1).await;
    let made = ingress(&world).await;
    assert_eq!(made[0]["from"][0], json!({"podSelector": {}}));
    assert_eq!(made[0]["from"][3], from[3]);
    let before = policies(&world).get("web").await.unwrap();
    world.change("web", json!({"size": 2})).await;
    world.until_ready("web", 2).await;
    assert_eq!(policies(&world).get("web").await.unwrap(), before, "a change of the size does not affect it");
}

#[tokio::test]
async fn reverts_drift_of_policy_and_recreates_it() {
    let world = World::new().await;
    let from = json!([{"podSelector": {"matchLabels": {"tier": "front"}}}]);
    world.create("web", json!({"size": 1, "networkPolicy": {"from": from}})).await;
    world.until_ready("web", 1).await;
    let replace = |path: &str, value: Value| json!({"op": "replace", "path": path, "value": value});
    world
        .is_put_right(
            policies(&world),
            "web",
            &[
                replace("/spec/ingress", json!([{}])),
                replace("/spec/ingress/0/from", json!([])),
                replace("/spec/ingress/0/ports/0/port", json!(1)),
                replace("/spec/podSelector", json!({})),
                replace("/spec/policyTypes", json!(["Ingress", "Egress"])),
                json!({"op": "remove", "path": "/metadata/labels/app"}),
            ],
        )
        .await;
    policies(&world).delete("web", &DeleteParams::default()).await.unwrap();
    world.until::<NetworkPolicy>("web", "the policy to be recreated", |_| true).await;
}

#[tokio::test]
async fn reports_foreign_policy_and_never_modifies_it() {
    let world = World::new().await;
    let theirs: NetworkPolicy = serde_json::from_value(json!({
        "metadata": {"name": "web", "labels": {"app.kubernetes.io/managed-by": "ensemble"}},
        "spec": {"podSelector": {"matchLabels": {"app": "theirs"}}},
    }))
    .unwrap();
    let before = policies(&world).create(&PostParams::default(), &theirs).await.unwrap();
    world.create("web", json!({"size": 1, "networkPolicy": {"from": [{"podSelector": {}}]}})).await;
    let said = world.until_said("web", "Degraded", ("True", "NameTaken")).await;
    assert!(said.contains("NetworkPolicy") && said.contains("delete or rename it"), "{said}");
    world.until_said("web", "Available", ("True", "AsAsked")).await;

    world.change("web", json!({"networkPolicy": null})).await;
    world.until_ready("web", 1).await;
    assert_eq!(policies(&world).get("web").await.unwrap(), before);
}
