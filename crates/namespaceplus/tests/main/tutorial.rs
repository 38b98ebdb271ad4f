//! The samples work with the documented commands.

use cluster::wait::eventually;
use k8s_openapi::api::core::v1::ResourceQuota;
use serde_json::json;

use crate::support::{PATIENCE, World};

#[tokio::test]
async fn the_sample_makes_its_namespace_with_a_quota_of_nothing() {
    let world = World::new().await;
    let sample = include_str!("../../../../samples/namespaceplus.yaml")
        .replace("my-ns1", &world.name)
        .replace("namespace: default", &format!("namespace: {}", world.home.name()));
    world.harness.cluster.apply_yaml(&sample).await.unwrap();
    let resource = format!("nsp/{}", world.name);
    world.kubectl(&["wait", "--for=condition=Ready", "--timeout=30s", &resource]).await.unwrap();
    let object = world.until_ready().await;
    assert_eq!(object.spec.foo.as_deref(), Some("example"));
    let quota = serde_json::to_value(&object.spec.quota).unwrap();
    assert_eq!(quota, json!({"cpu": "0", "memory": "0Gi", "pods": "0"}), "the defaults are visible");
    let made = world.inside::<ResourceQuota>().get("default-quota").await.unwrap();
    let hard = serde_json::to_value(made.spec.unwrap().hard).unwrap();
    assert_eq!(hard, json!({"cpu": "0", "memory": "0", "pods": "0"}));
    let shown = world.kubectl(&["get", "nsp"]).await.unwrap();
    let rows: Vec<Vec<_>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "NAMESPACE", "READY", "AGE"]);
    assert_eq!(rows[1][..3], [world.name.as_str(), world.name.as_str(), "True"]);
    assert!(world.kubectl(&["get", "ensemble"]).await.unwrap().contains(&world.name));
    let requests = world.harness.requests_in(&world.name).unwrap();
    assert!(requests.entries.iter().all(|entry| entry.code != 403), "{requests:?}");
}

#[tokio::test]
async fn the_sample_of_a_team_works_as_it_is() {
    let world = World::new().await;
    let sample = include_str!("../../../../samples/namespaceplus-team.yaml").replace(
        "name: team-blue\n  namespace: default",
        &format!("name: {}\n  namespace: {}", world.name, world.home.name()),
    );
    world.harness.cluster.apply_yaml(&sample).await.unwrap();
    world.until_ready().await;
    eventually("an Event about the namespace", PATIENCE, async || {
        Ok(world.kubectl(&["get", "events"]).await?.contains(&format!("created namespace {}", world.name)))
    })
    .await
    .unwrap();
}
