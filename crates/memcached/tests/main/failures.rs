//! Failures are reported, foreign objects are not touched, and the controller recovers.

use cluster::wait::eventually;
use k8s_openapi::api::{core::v1::ResourceQuota, events::v1::Event};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};

use crate::support::{PATIENCE, World, status};

fn stranger(kind: &str) -> Value {
    let spec = match kind {
        "Deployment" => json!({
            "replicas": 0, "selector": {"matchLabels": {"app": "theirs"}},
            "template": {
                "metadata": {"labels": {"app": "theirs"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        }),
        _ => json!({"selector": {"app": "theirs"}, "ports": [{"port": 80}]}),
    };
    json!({"metadata": {"name": "web"}, "spec": spec})
}

#[tokio::test]
async fn reports_foreign_deployment_and_recovers_without_it() {
    let world = World::new().await;
    let theirs = serde_json::from_value(stranger("Deployment")).unwrap();
    let before = world.deployments().create(&PostParams::default(), &theirs).await.unwrap();
    world.create("web", json!({"size": 1})).await;
    let said = world.until_said("web", "Degraded", ("True", "NameTaken")).await;
    assert!(said.contains("Deployment") && said.contains("delete or rename it"), "{said}");
    world.until_said("web", "Ready", ("False", "NameTaken")).await;
    let after = world.deployments().get("web").await.unwrap();
    assert_eq!((before.uid(), before.spec), (after.uid(), after.spec));
    eventually("an Event", PATIENCE, async || {
        Ok(world.kubectl(&["get", "events"]).await?.contains("NameTaken"))
    })
    .await
    .unwrap();

    world.deployments().delete("web", &DeleteParams::default()).await.unwrap();
    world.until_ready("web", 1).await;
    world.until_said("web", "Degraded", ("False", "AsAsked")).await;
}

#[tokio::test]
async fn foreign_service_blocks_endpoints_but_not_pods() {
    let world = World::new().await;
    let theirs = serde_json::from_value(stranger("Service")).unwrap();
    world.services().create(&PostParams::default(), &theirs).await.unwrap();
    world.create("web", json!({"size": 1})).await;
    let said = world.until_said("web", "Degraded", ("True", "NameTaken")).await;
    assert!(said.contains("Service"), "{said}");
    world.until_said("web", "Available", ("True", "AsAsked")).await;
    let cache = world.caches().get("web").await.unwrap();
    assert_eq!((status(&cache).nodes.len(), status(&cache).endpoints.len()), (1, 0));

    world.services().delete("web", &DeleteParams::default()).await.unwrap();
    let cache = world.until_ready("web", 1).await;
    assert_eq!(status(&cache).endpoints.len(), 1);
}

#[tokio::test]
async fn reports_exceeded_quota_and_recovers() {
    let world = World::new().await;
    quota(&world, "count/deployments.apps", "0").await;
    world.create("web", json!({"size": 1})).await;
    let said = world.until_said("web", "Degraded", ("True", "Refused")).await;
    assert!(said.contains("exceeded quota: tight"), "{said}");
    world.until_said("web", "Progressing", ("False", "Blocked")).await;

    world.api::<ResourceQuota>().delete("tight", &DeleteParams::default()).await.unwrap();
    world.until_ready("web", 1).await;
}

#[tokio::test]
async fn reports_replica_failure_with_server_message() {
    let world = World::new().await;
    quota(&world, "pods", "1").await;
    world.create("web", json!({"size": 2})).await;
    let said = world.until_said("web", "Degraded", ("True", "ReplicaFailure")).await;
    assert!(said.contains("exceeded quota: tight"), "{said}");
    world.until_said("web", "Available", ("False", "TooFewReady")).await;
}

#[tokio::test]
async fn reports_each_failure_once() {
    let world = World::new().await;
    let theirs = serde_json::from_value(stranger("Deployment")).unwrap();
    world.deployments().create(&PostParams::default(), &theirs).await.unwrap();
    world.create("web", json!({"size": 1})).await;
    world.until_said("web", "Degraded", ("True", "NameTaken")).await;
    for memory in [65, 66, 67] {
        world.change("web", json!({"memoryMegabytes": memory})).await;
        world
            .until("web", "the change to be observed", |cache: &memcached::Memcached| {
                status(cache).observed_generation == cache.metadata.generation
            })
            .await;
    }
    world.deployments().delete("web", &DeleteParams::default()).await.unwrap();
    world.until_ready("web", 1).await;
    let events = eventually("the Events to be there", PATIENCE, async || {
        let events = world.api::<Event>().list(&ListParams::default()).await?.items;
        let is_told =
            events.iter().any(|event| told(event).1.starts_with("Deployment") && told(event).0 == "Created");
        Ok(if is_told { Ok(events) } else { Err(events.len()) })
    })
    .await
    .unwrap();
    let of = |reason: &str| events.iter().filter(|event| told(event).0 == reason).collect::<Vec<_>>();
    let taken = of("NameTaken");
    assert_eq!(taken.len(), 1, "{taken:#?}");
    assert!(taken[0].series.is_none(), "reported repeatedly: {taken:#?}");
    for event in of("Created") {
        assert!(event.series.is_none(), "{event:#?}");
    }
}

/// Returns the reason and the note of an Event.
fn told(event: &Event) -> (&str, &str) {
    (event.reason.as_deref().unwrap_or_default(), event.note.as_deref().unwrap_or_default())
}

#[tokio::test]
async fn kubectl_wait_works_for_ready() {
    let world = World::new().await;
    world.create("web", json!({"size": 2})).await;
    let waited =
        world.kubectl(&["wait", "--for=condition=Ready", "memcached/web", "--timeout=60s"]).await.unwrap();
    assert!(waited.contains("condition met"), "{waited}");
    assert_eq!(status(&world.caches().get("web").await.unwrap()).ready_replicas, 2);
}

async fn quota(world: &World, resource: &str, hard: &str) {
    let quota = json!({"metadata": {"name": "tight"}, "spec": {"hard": {resource: hard}}});
    let quotas = world.api::<ResourceQuota>();
    quotas.create(&PostParams::default(), &serde_json::from_value(quota).unwrap()).await.unwrap();
    world
        .until::<ResourceQuota>("tight", "the quota to be enforced", |quota| {
            quota.status.as_ref().is_some_and(|status| status.hard.is_some())
        })
        .await;
}
