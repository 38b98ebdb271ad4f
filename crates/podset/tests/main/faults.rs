//! What stands in the way is told, and healed from.

use cluster::wait::eventually;
use harness::Instance;
use k8s_openapi::api::core::v1::{Namespace, ResourceQuota};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use podset::PodSetController;
use serde_json::json;

use crate::support::{PATIENCE, World, said};

#[tokio::test]
async fn a_quota_that_refuses_pods_is_told_in_its_words_and_healed_from() {
    let world = World::new().await;
    let quotas = Api::<ResourceQuota>::namespaced(world.client.clone(), &world.namespace);
    let quota =
        serde_json::from_value(json!({"metadata": {"name": "tight"}, "spec": {"hard": {"pods": "1"}}}));
    quotas.create(&PostParams::default(), &quota.unwrap()).await.unwrap();
    eventually("the quota to be enforced", PATIENCE, async || {
        Ok(quotas.get("tight").await?.status.is_some_and(|status| status.hard.is_some()))
    })
    .await
    .unwrap();

    world.create("web", json!({"replicas": 2})).await;
    let set = world
        .until("web", "the failure to be told", |set| said(set, "ReplicaFailure", "True").is_some())
        .await;
    let message = said(&set, "ReplicaFailure", "True").unwrap();
    assert!(message.contains("exceeded quota: tight"), "{message}");
    assert!(message.ends_with("raise the quota, free some of it, or lower spec.replicas"), "{message}");
    assert!(said(&set, "Ready", "False").is_some());
    eventually("an Event", PATIENCE, async || Ok(!world.events("FailedCreate").await.is_empty()))
        .await
        .unwrap();
    let asked = |resource: &str, code: u16| {
        let requests = world.harness.requests_in(&world.namespace).unwrap().writes();
        requests.filter(|entry| entry.resource == resource && entry.code == code).entries.len()
    };
    eventually("it to be tried four times", PATIENCE, async || Ok(asked("pods", 403) >= 4)).await.unwrap();
    assert_eq!(world.events("FailedCreate").await.len(), 1, "one cause is one Event");
    assert_eq!(asked("events", 200), 0, "and it is not repeated");
    assert_eq!(world.events("SuccessfulCreate").await, ["Created web-pod-1"]);

    quotas.delete("tight", &DeleteParams::default()).await.unwrap();
    let set = world.until_ready("web", 2).await;
    assert!(said(&set, "ReplicaFailure", "False").is_some());
}

#[tokio::test]
async fn a_template_that_the_api_server_refuses_is_told_with_what_to_change() {
    let world = World::new().await;
    let template = json!({"spec": {"containers": [{"name": "c", "image": " i"}]}});
    world.create("web", json!({"template": template})).await;
    let set = world.until_waiting("web", "FailedCreate").await;
    let message = said(&set, "ReplicaFailure", "True").unwrap();
    assert!(message.contains("spec.containers[0].image: Invalid value"), "{message}");
    assert!(message.ends_with("; correct spec.template"), "{message}");
    let patch = r#"{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;
    world.kubectl(&["patch", "podset", "web", "--type=merge", "-p", patch]).await.unwrap();
    let set = world.until_ready("web", 1).await;
    assert!(said(&set, "ReplicaFailure", "False").is_some());
}

#[tokio::test]
async fn a_terminating_namespace_is_left_in_peace() {
    let world = World::new().await;
    world.create("web", json!({"replicas": 2})).await;
    world.until_ready("web", 2).await;
    let namespaces = Api::<Namespace>::all(world.client.clone());
    namespaces.delete(&world.namespace, &DeleteParams::default()).await.unwrap();
    eventually("the namespace to be gone", 2 * PATIENCE, async || {
        Ok(namespaces.get_opt(&world.namespace).await?.is_none())
    })
    .await
    .unwrap();
    let requests = world.harness.requests_in(&world.namespace).unwrap().entries;
    let events = requests.iter().filter(|entry| entry.resource == "events").count();
    assert_eq!(events, 1, "only of the pods that were made at first: {requests:?}");
    let attempts = requests.iter().filter(|entry| entry.code == 403).count();
    assert!(attempts <= 20, "it tried {attempts} times, more than once for each change of a pod");
}

#[tokio::test]
async fn several_instances_at_once_make_no_surplus_pod() {
    let world = World::new().await;
    let others = [
        Instance::of::<PodSetController>(&world.harness, &world.namespace).await.unwrap(),
        Instance::of::<PodSetController>(&world.harness, &world.namespace).await.unwrap(),
    ];
    for name in ["a", "b", "c"] {
        world.create(name, json!({"replicas": 5})).await;
    }
    for name in ["a", "b", "c"] {
        world.until_ready(name, 5).await;
    }
    drop(others);
    let created = world.harness.requests_in(&world.namespace).unwrap();
    let created =
        created.filter(|entry| entry.verb == "create" && entry.resource == "pods" && entry.code == 201);
    assert_eq!(created.entries.len(), 15);
    assert_eq!(world.pods().list(&ListParams::default()).await.unwrap().items.len(), 15);
}
