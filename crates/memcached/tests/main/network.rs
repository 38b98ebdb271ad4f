//! The optional NetworkPolicy.

use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};

use crate::support::TestEnv;

fn policies(env: &TestEnv) -> Api<NetworkPolicy> {
    env.api()
}

async fn ingress(env: &TestEnv) -> Value {
    let policy = policies(env).get("web").await.unwrap();
    serde_json::to_value(policy.spec.unwrap().ingress.unwrap()).unwrap()
}

#[tokio::test]
async fn creates_updates_and_deletes_policy_with_the_option() {
    let env = TestEnv::new().await;
    env.ready("web", 1).await;
    assert!(policies(&env).get_opt("web").await.unwrap().is_none());

    let front = json!({"podSelector": {"matchLabels": {"tier": "front"}}});
    env.change("web", json!({"networkPolicy": {"from": [front]}})).await;
    env.until_ready("web", 1).await;
    let cache = json!({"port": "memcached", "protocol": "TCP"});
    assert_eq!(ingress(&env).await, json!([{"from": [front], "ports": [cache]}]));
    let policy = policies(&env).get("web").await.unwrap();
    let selected = policy.spec.unwrap().pod_selector.unwrap().match_labels.unwrap();
    assert_eq!(selected["memcached_cr"], "web");

    let monitoring = json!({"namespaceSelector": {"matchLabels": {"name": "monitoring"}}});
    let with_metrics =
        json!({"metrics": {}, "networkPolicy": {"from": [front], "metricsFrom": [monitoring]}});
    env.change("web", with_metrics).await;
    env.until_ready("web", 1).await;
    let metrics = json!({"port": "metrics", "protocol": "TCP"});
    let wanted = json!([
        {"from": [front], "ports": [cache, metrics]},
        {"from": [monitoring], "ports": [metrics]},
    ]);
    assert_eq!(ingress(&env).await, wanted);

    env.change("web", json!({"networkPolicy": null})).await;
    env.until_ready("web", 1).await;
    env.until_gone::<NetworkPolicy>("web").await;
}

#[tokio::test]
async fn accepts_all_forms_of_peers_without_repeated_updates() {
    let env = TestEnv::new().await;
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
    env.create("web", json!({"size": 1, "networkPolicy": {"from": from}})).await;
    env.until_ready("web", 1).await;
    let made = ingress(&env).await;
    assert_eq!(made[0]["from"][0], json!({"podSelector": {}}));
    assert_eq!(made[0]["from"][3], from[3]);
    let before = policies(&env).get("web").await.unwrap();
    env.change("web", json!({"size": 2})).await;
    env.until_ready("web", 2).await;
    assert_eq!(policies(&env).get("web").await.unwrap(), before, "a change of the size does not affect it");
}

#[tokio::test]
async fn reverts_drift_of_policy_and_recreates_it() {
    let env = TestEnv::new().await;
    let from = json!([{"podSelector": {"matchLabels": {"tier": "front"}}}]);
    env.create("web", json!({"size": 1, "networkPolicy": {"from": from}})).await;
    env.until_ready("web", 1).await;
    let replace = |path: &str, value: Value| json!({"op": "replace", "path": path, "value": value});
    env.is_reverted(
        policies(&env),
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
    policies(&env).delete("web", &DeleteParams::default()).await.unwrap();
    env.until::<NetworkPolicy>("web", "the policy to be recreated", |_| true).await;
}

#[tokio::test]
async fn reports_foreign_policy_and_never_modifies_it() {
    let env = TestEnv::new().await;
    let theirs: NetworkPolicy = serde_json::from_value(json!({
        "metadata": {"name": "web", "labels": {"app.kubernetes.io/managed-by": "ensemble"}},
        "spec": {"podSelector": {"matchLabels": {"app": "theirs"}}},
    }))
    .unwrap();
    let before = policies(&env).create(&PostParams::default(), &theirs).await.unwrap();
    env.create("web", json!({"size": 1, "networkPolicy": {"from": [{"podSelector": {}}]}})).await;
    let message = env.until_condition("web", "Degraded", ("True", "NameConflict")).await;
    assert!(message.contains("NetworkPolicy") && message.contains("delete or rename it"), "{message}");
    env.until_condition("web", "Available", ("True", "AsSpecified")).await;

    env.change("web", json!({"networkPolicy": null})).await;
    env.until_ready("web", 1).await;
    assert_eq!(policies(&env).get("web").await.unwrap(), before);
}
