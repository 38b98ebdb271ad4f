//! Drift of objects in the namespace is reverted, field by field.

use std::fmt::Debug;

use cluster::wait::eventually;
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        core::v1::{LimitRange, ResourceQuota},
        networking::v1::NetworkPolicy,
        policy::v1::PodDisruptionBudget,
        rbac::v1::RoleBinding,
    },
};
use kube::Resource;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    contents::everything,
    support::{PATIENCE, World, merge},
};

/// Returns the fields that the controller manages.
fn essence<K: Serialize>(object: &K) -> Value {
    let object = serde_json::to_value(object).unwrap();
    let labels = object["metadata"]["labels"].clone();
    json!({ "labels": labels, "spec": object["spec"], "subjects": object["subjects"], "roleRef": object["roleRef"] })
}

/// Checks that the controller reverts each of the changes, and changes of the labels.
async fn comes_back<K>(world: &World, name: &str, changes: &[Value])
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize,
{
    let api = world.inside::<K>();
    let before = essence(&api.get(name).await.unwrap());
    let recommended = ["name", "instance", "component", "part-of", "managed-by"];
    for label in recommended.map(|label| format!("app.kubernetes.io/{label}")) {
        assert!(before["labels"][&label].is_string(), "{name} has no label {label}");
        for value in [Value::Null, "theirs".into()] {
            drift::<K>(world, name, &before, json!({ "metadata": { "labels": { &label: value } } })).await;
        }
    }
    for change in changes {
        drift::<K>(world, name, &before, change.clone()).await;
    }
}

async fn drift<K>(world: &World, name: &str, before: &Value, change: Value)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize,
{
    let api = world.inside::<K>();
    let changed = merge(&api, name, change.clone()).await;
    assert_ne!(&essence(&changed), before, "{change} has no effect");
    eventually(&format!("{name} to be restored after {change}"), PATIENCE, async || {
        let now = essence(&api.get(name).await?);
        Ok(if now == *before { Ok(()) } else { Err(now) })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_quota_and_limits_come_back() {
    let world = World::new().await;
    world.ready(everything()).await;
    let hard = |change: Value| json!({ "spec": { "hard": change } });
    let changes = [json!({"pods": "99"}), json!({"pods": null}), json!({"services": "1"})].map(hard);
    comes_back::<ResourceQuota>(&world, "default-quota", &changes).await;
    let limits = |limits: Value| json!({ "spec": { "limits": limits } });
    let changes = [
        json!([]),
        json!([{"type": "Pod", "max": {"cpu": "1"}}]),
        json!([{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "64Mi"}}]),
        json!([{"type": "Container", "max": {"cpu": "1"}, "min": {"memory": "64Mi"}, "default": {"memory": "1Gi"}}]),
    ]
    .map(limits);
    comes_back::<LimitRange>(&world, "default-limits", &changes).await;
}

#[tokio::test]
async fn policies_and_budgets_come_back() {
    let world = World::new().await;
    world.ready(everything()).await;
    let spec = |change: Value| json!({ "spec": change });
    let changes = [
        json!({"podSelector": {"matchLabels": {"a": "b"}}}),
        json!({"policyTypes": ["Egress"]}),
        json!({"ingress": [{}]}),
        json!({"egress": null}),
        json!({"egress": [{"ports": [{"port": 53, "protocol": "UDP"}]}]}),
    ]
    .map(spec);
    comes_back::<NetworkPolicy>(&world, "dns", &changes).await;
    let changes = [
        json!({"minAvailable": 0}),
        json!({"minAvailable": null, "maxUnavailable": 1}),
        json!({"selector": {"matchLabels": {"app": "other"}}}),
        json!({"unhealthyPodEvictionPolicy": "AlwaysAllow"}),
    ]
    .map(spec);
    comes_back::<PodDisruptionBudget>(&world, "web", &changes).await;
}

#[tokio::test]
async fn bindings_come_back() {
    let world = World::new().await;
    world.ready(everything()).await;
    let eve = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"});
    let changes = [json!({"subjects": []}), json!({"subjects": [eve]}), json!({"subjects": null})];
    comes_back::<RoleBinding>(&world, "editors", &changes).await;
}
