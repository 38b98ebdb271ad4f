//! The samples work with the documented commands.

use cluster::wait::eventually;
use k8s_openapi::api::core::v1::ResourceQuota;
use serde_json::json;

use crate::support::{TIMEOUT, TestEnv};

#[tokio::test]
async fn sample_creates_namespace_with_default_quota() {
    let env = TestEnv::new().await;
    let sample = include_str!("../../../../samples/namespaceplus.yaml")
        .replace("my-ns1", &env.name)
        .replace("namespace: default", &format!("namespace: {}", env.home.name()));
    env.harness.cluster.apply_yaml(&sample).await.unwrap();
    let resource = format!("nsp/{}", env.name);
    env.kubectl(&["wait", "--for=condition=Ready", "--timeout=30s", &resource]).await.unwrap();
    let object = env.until_ready().await;
    assert_eq!(object.spec.foo.as_deref(), Some("example"));
    let quota = serde_json::to_value(&object.spec.quota).unwrap();
    assert_eq!(quota, json!({"cpu": "0", "memory": "0Gi", "pods": "0"}), "the defaults are visible");
    let made = env.inside::<ResourceQuota>().get("default-quota").await.unwrap();
    let hard = serde_json::to_value(made.spec.unwrap().hard).unwrap();
    assert_eq!(hard, json!({"cpu": "0", "memory": "0", "pods": "0"}));
    let shown = env.kubectl(&["get", "nsp"]).await.unwrap();
    let rows: Vec<Vec<_>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "NAMESPACE", "READY", "AGE"]);
    assert_eq!(rows[1][..3], [env.name.as_str(), env.name.as_str(), "True"]);
    assert!(env.kubectl(&["get", "ensemble"]).await.unwrap().contains(&env.name));
    let requests = env.harness.requests_in(&env.name).unwrap();
    assert!(requests.entries.iter().all(|entry| entry.code != 403), "{requests:?}");
}

#[tokio::test]
async fn team_sample_works_unchanged() {
    let env = TestEnv::new().await;
    let sample = include_str!("../../../../samples/namespaceplus-team.yaml").replace(
        "name: team-blue\n  namespace: default",
        &format!("name: {}\n  namespace: {}", env.name, env.home.name()),
    );
    env.harness.cluster.apply_yaml(&sample).await.unwrap();
    env.until_ready().await;
    eventually("an Event about the namespace", TIMEOUT, async || {
        Ok(env.kubectl(&["get", "events"]).await?.contains(&format!("created namespace {}", env.name)))
    })
    .await
    .unwrap();
}
