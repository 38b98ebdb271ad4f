//! A ReplicaSet that selects the very labels of a PodSet's pods.

use std::collections::BTreeMap;

use cluster::wait::eventually;
use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;

use crate::support::{PATIENCE, World, stray};

fn replica_sets(world: &World) -> Api<ReplicaSet> {
    Api::namespaced(world.client.clone(), &world.namespace)
}

/// A ReplicaSet and a PodSet of two pods each, with the same labels.
async fn rivals() -> World {
    let world = World::new().await;
    let labels = json!({"app": "web", "version": "v0.1"});
    let rival = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    }));
    replica_sets(&world).create(&PostParams::default(), &rival.unwrap()).await.unwrap();
    world.create("web", json!({"replicas": 2})).await;
    world.until_ready("web", 2).await;
    until_owned(&world, &[("PodSet", 2), ("ReplicaSet", 2)]).await;
    world
}

/// Waits until the pods of the namespace have these controllers.
async fn until_owned(world: &World, expected: &[(&str, usize)]) {
    let expected = expected.iter().map(|(kind, pods)| ((*kind).to_owned(), *pods)).collect();
    eventually(&format!("pods owned by {expected:?}"), PATIENCE, async || {
        let mut owners = BTreeMap::<String, usize>::new();
        for pod in world.pods().list(&ListParams::default()).await?.items {
            *owners.entry(controller(&pod)).or_default() += 1;
        }
        Ok(if owners == expected { Ok(()) } else { Err(owners) })
    })
    .await
    .unwrap();
}

fn controller(pod: &Pod) -> String {
    let controller = pod.owner_references().iter().find(|owner| owner.controller == Some(true));
    controller.map_or_else(|| "nobody".to_owned(), |owner| owner.kind.clone())
}

#[tokio::test]
async fn both_keep_their_own_pods() {
    let world = rivals().await;
    let victim = world.pods().get("web-pod-1").await.unwrap();
    world.pods().delete("web-pod-1", &DeleteParams::default()).await.unwrap();
    eventually("the pod to go", PATIENCE, async || {
        Ok(world.pods().get_opt("web-pod-1").await?.is_none_or(|pod| pod.uid() != victim.uid()))
    })
    .await
    .unwrap();
    until_owned(&world, &[("PodSet", 2), ("ReplicaSet", 2)]).await;
    let touched = world.harness.requests_in(&world.namespace).unwrap().writes();
    let touched = touched.filter(|entry| entry.resource == "pods" && !entry.name.starts_with("web-pod-"));
    assert_eq!(touched.entries, [], "pods of the ReplicaSet are none of its business");
}

#[tokio::test]
async fn an_orphan_that_both_want_goes_to_one_and_nobody_complains() {
    let world = rivals().await;
    for number in 0..6 {
        let pod = stray(&format!("stray-{number}"), "web");
        world.pods().create(&PostParams::default(), &pod).await.unwrap();
    }
    until_owned(&world, &[("PodSet", 2), ("ReplicaSet", 2)]).await;
    world.until_ready("web", 2).await;
    assert_eq!(world.events("FailedAdopt").await, [""; 0]);
    let requests = world.harness.requests_in(&world.namespace).unwrap();
    let patches = requests.filter(|entry| entry.verb == "patch" && entry.resource == "pods").entries;
    assert!(patches.iter().all(|entry| [200, 404, 409].contains(&entry.code)), "{patches:?}");
}

#[tokio::test]
async fn the_pods_that_one_leaves_behind_are_taken_over_by_the_other() {
    let world = rivals().await;
    let scale = ["scale", "podset", "web", "--replicas=4"];
    world.kubectl(&["delete", "replicaset", "web", "--cascade=orphan"]).await.unwrap();
    until_owned(&world, &[("PodSet", 2)]).await;
    world.kubectl(&scale).await.unwrap();
    world.until_ready("web", 4).await;
    until_owned(&world, &[("PodSet", 4)]).await;
}
