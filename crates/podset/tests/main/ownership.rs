//! Whose pods are whose.

use cluster::wait::eventually;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{DeleteParams, PostParams, PropagationPolicy},
};
use serde_json::json;

use crate::support::{PATIENCE, World};

fn pod(name: &str, app: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"app": app, "version": "v0.1"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }))
    .unwrap()
}

#[tokio::test]
async fn an_orphan_with_the_labels_is_adopted_and_counts() {
    let world = World::new().await;
    world.pods().create(&PostParams::default(), &pod("stray", "web")).await.unwrap();
    world.create("web", json!({"replicas": 2})).await;
    let names = world.until_ready("web", 2).await.status.unwrap().pod_names;
    assert_eq!(names, ["stray", "web-pod-1"]);
    let owner = world.pods().get("stray").await.unwrap().owner_references()[0].clone();
    assert_eq!((owner.kind.as_str(), owner.controller), ("PodSet", Some(true)));
}

#[tokio::test]
async fn pods_of_others_are_left_alone() {
    let world = World::new().await;
    let mut stranger = pod("stranger", "web");
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "00000000-0000-0000-0000-000000000000",
        "controller": true});
    stranger.metadata.owner_references = Some(vec![serde_json::from_value(owner).unwrap()]);
    stranger.metadata.finalizers = Some(vec!["example.com/keep".into()]);
    world.pods().create(&PostParams::default(), &stranger).await.unwrap();
    world.pods().create(&PostParams::default(), &pod("other", "another")).await.unwrap();
    world.create("web", json!({"replicas": 1})).await;
    let names = world.until_ready("web", 1).await.status.unwrap().pod_names;
    assert_eq!(names, ["web-pod-1"]);
    let requests = world.harness.requests_in(&world.namespace).unwrap().writes();
    assert!(requests.entries.iter().all(|entry| entry.name != "stranger" && entry.name != "other"));
    let free = json!({"metadata": {"finalizers": null}});
    world
        .pods()
        .patch("stranger", &kube::api::PatchParams::default(), &kube::api::Patch::Merge(free))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_relabelled_pod_is_released_and_replaced() {
    let world = World::new().await;
    world.create("web", json!({"replicas": 1})).await;
    world.until_ready("web", 1).await;
    world.kubectl(&["label", "pod", "web-pod-1", "app=debug", "--overwrite"]).await.unwrap();
    eventually("the pod to be released", PATIENCE, async || {
        let owners = world.pods().get("web-pod-1").await?.owner_references().to_vec();
        Ok(if owners.is_empty() { Ok(()) } else { Err(owners) })
    })
    .await
    .unwrap();
    let set = world
        .until("web", "a new pod", |set| {
            set.status.as_ref().is_some_and(|status| status.pod_names == ["web-pod-2"])
        })
        .await;
    assert_eq!(set.status.unwrap().available_replicas, 1);
}

#[tokio::test]
async fn deleting_with_orphan_leaves_the_pods_and_a_namesake_adopts_them() {
    let world = World::new().await;
    world.create("web", json!({"replicas": 2})).await;
    world.until_ready("web", 2).await;
    let orphan =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    world.sets().delete("web", &orphan).await.unwrap();
    eventually("the PodSet to be gone", PATIENCE, async || Ok(world.sets().get_opt("web").await?.is_none()))
        .await
        .unwrap();
    assert_eq!(world.pod_names().await, ["web-pod-1", "web-pod-2"]);
    world.create("web", json!({"replicas": 2})).await;
    world.until_ready("web", 2).await;
    assert_eq!(world.pod_names().await, ["web-pod-1", "web-pod-2"]);
}
