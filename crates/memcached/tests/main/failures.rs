//! Failures are reported, foreign objects are not touched, and the controller recovers.

use cluster::wait::eventually;
use k8s_openapi::api::{core::v1::ResourceQuota, events::v1::Event};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};

use crate::support::{TIMEOUT, TestEnv, status};

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
    let env = TestEnv::new().await;
    let theirs = serde_json::from_value(stranger("Deployment")).unwrap();
    let before = env.deployments().create(&PostParams::default(), &theirs).await.unwrap();
    env.create("web", json!({"size": 1})).await;
    let message = env.until_condition("web", "Degraded", ("True", "NameConflict")).await;
    assert!(message.contains("Deployment") && message.contains("delete or rename it"), "{message}");
    env.until_condition("web", "Ready", ("False", "NameConflict")).await;
    let after = env.deployments().get("web").await.unwrap();
    assert_eq!((before.uid(), before.spec), (after.uid(), after.spec));
    eventually("an Event", TIMEOUT, async || {
        Ok(env.kubectl(&["get", "events"]).await?.contains("NameConflict"))
    })
    .await
    .unwrap();

    env.deployments().delete("web", &DeleteParams::default()).await.unwrap();
    env.until_ready("web", 1).await;
    env.until_condition("web", "Degraded", ("False", "AsSpecified")).await;
}

#[tokio::test]
async fn foreign_service_blocks_endpoints_but_not_pods() {
    let env = TestEnv::new().await;
    let theirs = serde_json::from_value(stranger("Service")).unwrap();
    env.services().create(&PostParams::default(), &theirs).await.unwrap();
    env.create("web", json!({"size": 1})).await;
    let message = env.until_condition("web", "Degraded", ("True", "NameConflict")).await;
    assert!(message.contains("Service"), "{message}");
    env.until_condition("web", "Available", ("True", "AsSpecified")).await;
    let cache = env.caches().get("web").await.unwrap();
    assert_eq!((status(&cache).nodes.len(), status(&cache).endpoints.len()), (1, 0));

    env.services().delete("web", &DeleteParams::default()).await.unwrap();
    let cache = env.until_ready("web", 1).await;
    assert_eq!(status(&cache).endpoints.len(), 1);
}

#[tokio::test]
async fn reports_exceeded_quota_and_recovers() {
    let env = TestEnv::new().await;
    quota(&env, "count/deployments.apps", "0").await;
    env.create("web", json!({"size": 1})).await;
    let message = env.until_condition("web", "Degraded", ("True", "Denied")).await;
    assert!(message.contains("exceeded quota: tight"), "{message}");
    env.until_condition("web", "Progressing", ("False", "Blocked")).await;

    env.api::<ResourceQuota>().delete("tight", &DeleteParams::default()).await.unwrap();
    env.until_ready("web", 1).await;
}

#[tokio::test]
async fn reports_replica_failure_with_server_message() {
    let env = TestEnv::new().await;
    quota(&env, "pods", "1").await;
    env.create("web", json!({"size": 2})).await;
    let message = env.until_condition("web", "Degraded", ("True", "ReplicaFailure")).await;
    assert!(message.contains("exceeded quota: tight"), "{message}");
    env.until_condition("web", "Available", ("False", "PodsNotReady")).await;
}

#[tokio::test]
async fn reports_each_failure_once() {
    let env = TestEnv::new().await;
    let theirs = serde_json::from_value(stranger("Deployment")).unwrap();
    env.deployments().create(&PostParams::default(), &theirs).await.unwrap();
    env.create("web", json!({"size": 1})).await;
    env.until_condition("web", "Degraded", ("True", "NameConflict")).await;
    for memory in [65, 66, 67] {
        env.change("web", json!({"memoryMegabytes": memory})).await;
        env.until("web", "the change to be observed", |cache: &memcached::Memcached| {
            status(cache).observed_generation == cache.metadata.generation
        })
        .await;
    }
    env.deployments().delete("web", &DeleteParams::default()).await.unwrap();
    env.until_ready("web", 1).await;
    let events = eventually("the Events to be there", TIMEOUT, async || {
        let events = env.api::<Event>().list(&ListParams::default()).await?.items;
        let is_recorded = events.iter().any(|event| {
            reason_and_note(event).1.starts_with("Deployment") && reason_and_note(event).0 == "Created"
        });
        Ok(if is_recorded { Ok(events) } else { Err(events.len()) })
    })
    .await
    .unwrap();
    let of =
        |reason: &str| events.iter().filter(|event| reason_and_note(event).0 == reason).collect::<Vec<_>>();
    let conflicts = of("NameConflict");
    assert_eq!(conflicts.len(), 1, "{conflicts:#?}");
    assert!(conflicts[0].series.is_none(), "reported repeatedly: {conflicts:#?}");
    for event in of("Created") {
        assert!(event.series.is_none(), "{event:#?}");
    }
}

/// Returns the reason and the note of an Event.
fn reason_and_note(event: &Event) -> (&str, &str) {
    (event.reason.as_deref().unwrap_or_default(), event.note.as_deref().unwrap_or_default())
}

#[tokio::test]
async fn kubectl_wait_works_for_ready() {
    let env = TestEnv::new().await;
    env.create("web", json!({"size": 2})).await;
    let waited =
        env.kubectl(&["wait", "--for=condition=Ready", "memcached/web", "--timeout=60s"]).await.unwrap();
    assert!(waited.contains("condition met"), "{waited}");
    assert_eq!(status(&env.caches().get("web").await.unwrap()).ready_replicas, 2);
}

async fn quota(env: &TestEnv, resource: &str, hard: &str) {
    let quota = json!({"metadata": {"name": "tight"}, "spec": {"hard": {resource: hard}}});
    let quotas = env.api::<ResourceQuota>();
    quotas.create(&PostParams::default(), &serde_json::from_value(quota).unwrap()).await.unwrap();
    env.until::<ResourceQuota>("tight", "the quota to be enforced", |quota| {
        quota.status.as_ref().is_some_and(|status| status.hard.is_some())
    })
    .await;
}
