//! Quotas of a Tenant as a whole, and of each namespace alone.

use k8s_openapi::{
    api::core::v1::{Pod, ResourceQuota},
    jiff::Timestamp,
};
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::support::World;

pub(crate) fn pod(name: &str) -> Pod {
    let containers = json!([{ "name": "main", "image": "example.com/main" }]);
    serde_json::from_value(json!({ "metadata": { "name": name }, "spec": { "containers": containers } }))
        .unwrap()
}

/// Waits until the grant is given and in force: the API server holds people to what stands in the status.
pub(crate) async fn until_hard(world: &World, end: &str, pods: &str) {
    let name = format!("capsule-{}-0", world.name);
    world
        .until_object::<ResourceQuota>(end, &name, &format!("to grant {pods} pods"), |quota| {
            let given = quota.spec.as_ref().and_then(|spec| spec.hard.as_ref());
            let in_force = quota.status.as_ref().and_then(|status| status.hard.as_ref());
            [given, in_force].iter().all(|hard| hard.is_some_and(|hard| hard["pods"].0 == pods))
        })
        .await;
}

/// Creates a pod as soon as the namespace has what pods need.
pub(crate) async fn run(world: &World, end: &str, name: &str) {
    let pods = world.api::<Pod>(&world.named(end));
    cluster::wait::eventually("the pod to be made", crate::support::PATIENCE, async || {
        pods.create(&PostParams::default(), &pod(name)).await?;
        Ok(true)
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_quota_of_the_tenant_is_what_its_namespaces_have_together() {
    let world = World::new().await;
    let quotas = json!({ "items": [{ "hard": { "pods": "3" } }] });
    world.ready(json!({ "resourceQuotas": quotas }), &["a", "b"]).await;
    until_hard(&world, "a", "3").await;
    run(&world, "a", "one").await;
    until_hard(&world, "b", "2").await;
    until_hard(&world, "a", "3").await;
    run(&world, "b", "two").await;
    run(&world, "b", "three").await;
    until_hard(&world, "a", "1").await;
    until_hard(&world, "b", "2").await;
    let refused = world.api(&world.named("a")).create(&PostParams::default(), &pod("four")).await;
    assert!(refused.unwrap_err().to_string().contains("exceeded quota"));

    let pods = world.api::<Pod>(&world.named("b"));
    pods.delete("two", &DeleteParams::default().grace_period(0)).await.unwrap();
    until_hard(&world, "a", "2").await;
    run(&world, "a", "four").await;

    world.change(json!({ "resourceQuotas": { "items": [{ "hard": { "pods": "10" } }] } })).await;
    until_hard(&world, "a", "9").await;
    until_hard(&world, "b", "8").await;
    world.until_ready(&["a", "b"]).await;
}

#[tokio::test]
async fn a_pod_costs_one_write_for_each_namespace_at_most() {
    let world = World::new().await;
    let items = json!([{ "hard": { "pods": "5", "count/pods": "7" } }, { "hard": { "services": "3" } }]);
    world.ready(json!({ "resourceQuotas": { "items": items } }), &["a", "b"]).await;
    let before = Timestamp::now();
    run(&world, "a", "one").await;
    until_hard(&world, "b", "4").await;
    world.until_ready(&["a", "b"]).await;
    let mut writes = world.writes(before);
    writes.sort();
    let update = format!("update resourcequotas/ capsule-{}-0", world.name);
    assert_eq!(writes, [update.clone(), update]);
}

#[tokio::test]
async fn a_quota_of_each_namespace_is_the_same_whatever_is_used() {
    let world = World::new().await;
    let item = json!({ "hard": { "pods": "3" } });
    world.ready(json!({ "resourceQuotas": { "scope": "Namespace", "items": [item] } }), &["a", "b"]).await;
    until_hard(&world, "b", "3").await;
    run(&world, "a", "one").await;
    let name = format!("capsule-{}-0", world.name);
    world
        .until_object::<ResourceQuota>("a", &name, "to count the pod", |quota| {
            let used = quota.status.as_ref().and_then(|status| status.used.as_ref());
            used.is_some_and(|used| used["pods"].0 == "1")
        })
        .await;
    // The change of scope is carried out after whatever the use may have led to.
    world
        .change(json!({ "resourceQuotas": { "items": [{ "hard": { "pods": "5" } }], "scope": "Namespace" } }))
        .await;
    until_hard(&world, "b", "5").await;
    until_hard(&world, "a", "5").await;
    world.change(json!({ "resourceQuotas": { "scope": "Tenant" } })).await;
    until_hard(&world, "b", "4").await;
    until_hard(&world, "a", "5").await;
}

#[tokio::test]
async fn a_namespace_that_joins_later_shares_what_is_left() {
    let world = World::new().await;
    world.ready(json!({ "resourceQuotas": { "items": [{ "hard": { "pods": "3" } }] } }), &["a"]).await;
    run(&world, "a", "one").await;
    world.join("b").await;
    until_hard(&world, "b", "2").await;
    until_hard(&world, "a", "3").await;
}
