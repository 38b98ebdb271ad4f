//! Whose pods are whose.

use cluster::wait::eventually;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{ResourceExt, api::PostParams};
use serde_json::{Value, json};

use crate::support::{PATIENCE, World, stray};

#[tokio::test]
async fn an_orphan_with_the_labels_is_adopted_and_counts() {
    let world = World::new().await;
    world.pods().create(&PostParams::default(), &stray("stray", "web")).await.unwrap();
    world.create("web", json!({"replicas": 2})).await;
    let names = world.until_ready("web", 2).await.status.unwrap().pod_names;
    assert_eq!(names, ["stray", "web-pod-1"]);
    let owner = world.pods().get("stray").await.unwrap().owner_references()[0].clone();
    assert_eq!((owner.kind.as_str(), owner.controller), ("PodSet", Some(true)));
}

#[tokio::test]
async fn pods_of_others_are_left_alone() {
    let world = World::new().await;
    let mut stranger = stray("stranger", "web");
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "00000000-0000-0000-0000-000000000000",
        "controller": true});
    stranger.metadata.owner_references = Some(vec![serde_json::from_value(owner).unwrap()]);
    stranger.metadata.finalizers = Some(vec!["example.com/keep".into()]);
    world.pods().create(&PostParams::default(), &stranger).await.unwrap();
    world.pods().create(&PostParams::default(), &stray("other", "another")).await.unwrap();
    world.create("web", json!({"replicas": 1})).await;
    let names = world.until_ready("web", 1).await.status.unwrap().pod_names;
    assert_eq!(names, ["web-pod-1"]);
    let requests = world.harness.requests_in(&world.namespace).unwrap().writes();
    assert!(requests.entries.iter().all(|entry| entry.name != "stranger" && entry.name != "other"));
    world.free("stranger").await;
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
async fn a_pod_is_adopted_whoever_else_owns_it_as_long_as_nobody_controls_it() {
    let world = World::new().await;
    let set = world.create("web", json!({"replicas": 3})).await;
    world.until_ready("web", 3).await;
    world.kubectl(&["create", "configmap", "x"]).await.unwrap();
    let x = world.kubectl(&["get", "configmap", "x", "--output=jsonpath={.metadata.uid}"]).await.unwrap();
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": x});
    let this =
        json!({"apiVersion": "app.example.com/v1alpha1", "kind": "PodSet", "name": "web", "uid": set.uid()});
    for (name, owners, after) in [
        ("without-owner", vec![], vec!["PodSet"]),
        ("owned-without-control", vec![this], vec!["PodSet"]),
        ("owned-by-another", vec![other], vec!["ConfigMap", "PodSet"]),
    ] {
        // The PodSet deletes one pod too many at once; a finalizer keeps it.
        let mut pod = stray(name, "web");
        pod.metadata.owner_references =
            Some(owners.into_iter().map(|owner: Value| serde_json::from_value(owner).unwrap()).collect());
        pod.metadata.finalizers = Some(vec!["example.com/keep".into()]);
        world.pods().create(&PostParams::default(), &pod).await.unwrap();
        let owners = eventually(&format!("{name} to be adopted"), PATIENCE, async || {
            let owners = world.pods().get(name).await?.owner_references().to_vec();
            Ok(if owners.iter().any(|owner| owner.controller == Some(true)) {
                Ok(owners)
            } else {
                Err(owners)
            })
        })
        .await
        .unwrap();
        let mut kinds: Vec<_> = owners.iter().map(|owner: &OwnerReference| owner.kind.as_str()).collect();
        kinds.sort_unstable();
        assert_eq!(kinds, after, "{name}");
        world.free(name).await;
    }
    world.until_ready("web", 3).await;
}

#[tokio::test]
async fn a_finished_orphan_is_left_alone() {
    let world = World::new().await;
    world.pods().create(&PostParams::default(), &stray("done", "web")).await.unwrap();
    let patch = r#"{"status":{"phase":"Succeeded"}}"#;
    world
        .kubectl(&["patch", "pod", "done", "--subresource=status", "--type=merge", "-p", patch])
        .await
        .unwrap();
    world.create("web", json!({"replicas": 1})).await;
    let names = world.until_ready("web", 1).await.status.unwrap().pod_names;
    assert_eq!(names, ["web-pod-1"]);
    assert_eq!(world.pods().get("done").await.unwrap().owner_references(), []);
}

#[tokio::test]
async fn surplus_pods_that_are_adopted_are_deleted() {
    let world = World::new().await;
    world.create("web", json!({"replicas": 2})).await;
    world.until_ready("web", 2).await;
    for name in ["extra-1", "extra-2", "extra-3"] {
        world.pods().create(&PostParams::default(), &stray(name, "web")).await.unwrap();
    }
    eventually("two pods to be left, all of them adopted", PATIENCE, async || {
        let requests = world.harness.requests_in(&world.namespace)?;
        let adopted = requests.filter(|entry| entry.verb == "patch" && entry.resource == "pods").entries;
        let names = world.pod_names().await;
        Ok(if names.len() == 2 && adopted.len() >= 3 { Ok(()) } else { Err(names) })
    })
    .await
    .unwrap();
    world.until_ready("web", 2).await;
}
