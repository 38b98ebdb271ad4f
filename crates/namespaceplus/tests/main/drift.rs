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
    support::{TIMEOUT, TestEnv, merge},
};

/// Returns the fields that the controller manages.
fn managed_fields<K: Serialize>(object: &K) -> Value {
    let object = serde_json::to_value(object).unwrap();
    let labels = object["metadata"]["labels"].clone();
    json!({ "labels": labels, "spec": object["spec"], "subjects": object["subjects"], "roleRef": object["roleRef"] })
}

/// Checks that the controller reverts each of the changes, and changes of the labels.
async fn is_reverted<K>(env: &TestEnv, name: &str, changes: &[Value])
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize,
{
    let api = env.inside::<K>();
    let before = managed_fields(&api.get(name).await.unwrap());
    let recommended = ["name", "instance", "component", "part-of", "managed-by"];
    for label in recommended.map(|label| format!("app.kubernetes.io/{label}")) {
        assert!(before["labels"][&label].is_string(), "{name} has no label {label}");
        for value in [Value::Null, "theirs".into()] {
            apply_drift::<K>(env, name, &before, json!({ "metadata": { "labels": { &label: value } } }))
                .await;
        }
    }
    for change in changes {
        apply_drift::<K>(env, name, &before, change.clone()).await;
    }
}

async fn apply_drift<K>(env: &TestEnv, name: &str, before: &Value, change: Value)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize,
{
    let api = env.inside::<K>();
    let changed = merge(&api, name, change.clone()).await;
    assert_ne!(&managed_fields(&changed), before, "{change} has no effect");
    eventually(&format!("{name} to be restored after {change}"), TIMEOUT, async || {
        let now = managed_fields(&api.get(name).await?);
        Ok(if now == *before { Ok(()) } else { Err(now) })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn reverts_drift_of_quota_and_limit_range() {
    let env = TestEnv::new().await;
    env.ready(everything()).await;
    let hard = |change: Value| json!({ "spec": { "hard": change } });
    let changes = [json!({"pods": "99"}), json!({"pods": null}), json!({"services": "1"})].map(hard);
    is_reverted::<ResourceQuota>(&env, "default-quota", &changes).await;
    let limits = |limits: Value| json!({ "spec": { "limits": limits } });
    let changes = [
        json!([]),
        json!([{"type": "Pod", "max": {"cpu": "1"}}]),
        json!([{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "64Mi"}}]),
        json!([{"type": "Container", "max": {"cpu": "1"}, "min": {"memory": "64Mi"}, "default": {"memory": "1Gi"}}]),
    ]
    .map(limits);
    is_reverted::<LimitRange>(&env, "default-limits", &changes).await;
}

#[tokio::test]
async fn reverts_drift_of_policies_and_budgets() {
    let env = TestEnv::new().await;
    env.ready(everything()).await;
    let spec = |change: Value| json!({ "spec": change });
    let changes = [
        json!({"podSelector": {"matchLabels": {"a": "b"}}}),
        json!({"policyTypes": ["Egress"]}),
        json!({"ingress": [{}]}),
        json!({"egress": null}),
        json!({"egress": [{"ports": [{"port": 53, "protocol": "UDP"}]}]}),
    ]
    .map(spec);
    is_reverted::<NetworkPolicy>(&env, "dns", &changes).await;
    let changes = [
        json!({"minAvailable": 0}),
        json!({"minAvailable": null, "maxUnavailable": 1}),
        json!({"selector": {"matchLabels": {"app": "other"}}}),
        json!({"unhealthyPodEvictionPolicy": "AlwaysAllow"}),
    ]
    .map(spec);
    is_reverted::<PodDisruptionBudget>(&env, "web", &changes).await;
}

#[tokio::test]
async fn reverts_drift_of_role_bindings() {
    let env = TestEnv::new().await;
    env.ready(everything()).await;
    let eve = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"});
    let changes = [json!({"subjects": []}), json!({"subjects": [eve]}), json!({"subjects": null})];
    is_reverted::<RoleBinding>(&env, "editors", &changes).await;
}
