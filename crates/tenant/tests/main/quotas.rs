//! Quotas that namespaces share, and quotas for each namespace.

use k8s_openapi::{
    api::core::v1::{Pod, ResourceQuota},
    jiff::Timestamp,
};
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::support::TestEnv;

pub(crate) fn pod(name: &str) -> Pod {
    let containers = json!([{ "name": "main", "image": "example.com/main" }]);
    serde_json::from_value(json!({ "metadata": { "name": name }, "spec": { "containers": containers } }))
        .unwrap()
}

/// Waits until the limit is in the spec and in the status, which the API server enforces.
pub(crate) async fn until_hard(env: &TestEnv, suffix: &str, pods: &str) {
    let name = format!("capsule-{}-0", env.name);
    env.until_object::<ResourceQuota>(suffix, &name, &format!("to grant {pods} pods"), |quota| {
        let hard = quota.spec.as_ref().and_then(|spec| spec.hard.as_ref());
        let in_force = quota.status.as_ref().and_then(|status| status.hard.as_ref());
        [hard, in_force].iter().all(|hard| hard.is_some_and(|hard| hard["pods"].0 == pods))
    })
    .await;
}

/// Creates a Pod as soon as the ServiceAccount of the namespace exists.
pub(crate) async fn run(env: &TestEnv, suffix: &str, name: &str) {
    let pods = env.api::<Pod>(&env.prefixed(suffix));
    cluster::wait::eventually("the pod to be made", crate::support::TIMEOUT, async || {
        pods.create(&PostParams::default(), &pod(name)).await?;
        Ok(true)
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn namespaces_share_the_quota_of_the_tenant() {
    let env = TestEnv::new().await;
    let quotas = json!({ "items": [{ "hard": { "pods": "3" } }] });
    env.ready(json!({ "resourceQuotas": quotas }), &["a", "b"]).await;
    until_hard(&env, "a", "3").await;
    run(&env, "a", "one").await;
    until_hard(&env, "b", "2").await;
    until_hard(&env, "a", "3").await;
    run(&env, "b", "two").await;
    run(&env, "b", "three").await;
    until_hard(&env, "a", "1").await;
    until_hard(&env, "b", "2").await;
    let error = env.api(&env.prefixed("a")).create(&PostParams::default(), &pod("four")).await;
    assert!(error.unwrap_err().to_string().contains("exceeded quota"));

    let pods = env.api::<Pod>(&env.prefixed("b"));
    pods.delete("two", &DeleteParams::default().grace_period(0)).await.unwrap();
    until_hard(&env, "a", "2").await;
    run(&env, "a", "four").await;

    env.change(json!({ "resourceQuotas": { "items": [{ "hard": { "pods": "10" } }] } })).await;
    until_hard(&env, "a", "9").await;
    until_hard(&env, "b", "8").await;
    env.until_ready(&["a", "b"]).await;
}

#[tokio::test]
async fn new_pod_needs_at_most_one_write_for_each_namespace() {
    let env = TestEnv::new().await;
    let items = json!([{ "hard": { "pods": "5", "count/pods": "7" } }, { "hard": { "services": "3" } }]);
    env.ready(json!({ "resourceQuotas": { "items": items } }), &["a", "b"]).await;
    let before = Timestamp::now();
    run(&env, "a", "one").await;
    until_hard(&env, "b", "4").await;
    env.until_ready(&["a", "b"]).await;
    let mut writes = env.writes(before);
    writes.sort();
    let update = format!("update resourcequotas/ capsule-{}-0", env.name);
    assert_eq!(writes, [update.clone(), update]);
}

#[tokio::test]
async fn quota_of_each_namespace_does_not_depend_on_usage() {
    let env = TestEnv::new().await;
    let item = json!({ "hard": { "pods": "3" } });
    env.ready(json!({ "resourceQuotas": { "scope": "Namespace", "items": [item] } }), &["a", "b"]).await;
    until_hard(&env, "b", "3").await;
    run(&env, "a", "one").await;
    let name = format!("capsule-{}-0", env.name);
    env.until_object::<ResourceQuota>("a", &name, "to count the pod", |quota| {
        let used = quota.status.as_ref().and_then(|status| status.used.as_ref());
        used.is_some_and(|used| used["pods"].0 == "1")
    })
    .await;
    // This change is applied after all reconciles that the usage may have triggered.
    env.change(json!({ "resourceQuotas": { "items": [{ "hard": { "pods": "5" } }], "scope": "Namespace" } }))
        .await;
    until_hard(&env, "b", "5").await;
    until_hard(&env, "a", "5").await;
    env.change(json!({ "resourceQuotas": { "scope": "Tenant" } })).await;
    until_hard(&env, "b", "4").await;
    until_hard(&env, "a", "5").await;
}

#[tokio::test]
async fn new_namespace_gets_the_rest_of_the_quota() {
    let env = TestEnv::new().await;
    env.ready(json!({ "resourceQuotas": { "items": [{ "hard": { "pods": "3" } }] } }), &["a"]).await;
    run(&env, "a", "one").await;
    env.join("b").await;
    until_hard(&env, "b", "2").await;
    until_hard(&env, "a", "3").await;
}
