//! What is left when a PodSet is deleted.

use cluster::wait::eventually;
use kube::api::{DeleteParams, PropagationPolicy};
use serde_json::json;

use crate::support::{PATIENCE, UNTIL_COLLECTED, World};

/// Deletes the PodSet `web` in a certain way, and waits until it is gone.
async fn delete(world: &World, policy: PropagationPolicy) {
    let params = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
    world.sets().delete("web", &params).await.unwrap();
    eventually("the PodSet to be gone", UNTIL_COLLECTED, async || {
        Ok(world.sets().get_opt("web").await?.is_none())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn deleting_with_orphan_leaves_the_pods_and_a_namesake_adopts_them() {
    let world = World::new().await;
    world.create("web", json!({"replicas": 2})).await;
    world.until_ready("web", 2).await;
    delete(&world, PropagationPolicy::Orphan).await;
    assert_eq!(world.pod_names().await, ["web-pod-1", "web-pod-2"]);
    world.create("web", json!({"replicas": 2})).await;
    world.until_ready("web", 2).await;
    assert_eq!(world.pod_names().await, ["web-pod-1", "web-pod-2"]);
}

#[tokio::test]
async fn deleting_in_the_foreground_takes_the_pods_first_and_none_comes_back() {
    let world = World::new().await;
    world.create("web", json!({"replicas": 3})).await;
    world.until_ready("web", 3).await;
    delete(&world, PropagationPolicy::Foreground).await;
    assert_eq!(world.pod_names().await, [""; 0], "the pods go before their PodSet");
    let made = world.harness.requests_in(&world.namespace).unwrap();
    let made = made.filter(|entry| entry.resource == "pods" && entry.is_write()).entries;
    assert_eq!(made.len(), 3, "nothing but the first three creates: {made:?}");
}

#[tokio::test]
async fn a_namesake_that_follows_at_once_has_pods_of_its_own() {
    let world = World::new().await;
    world.create("web", json!({"replicas": 2})).await;
    world.until_ready("web", 2).await;
    world.sets().delete("web", &DeleteParams::background()).await.unwrap();
    eventually("the name to be free", PATIENCE, async || Ok(world.sets().get_opt("web").await?.is_none()))
        .await
        .unwrap();
    let uid = world.create("web", json!({"replicas": 2})).await.metadata.uid.unwrap();
    eventually("two pods of the new one to be all there is", UNTIL_COLLECTED, async || {
        let pods = world.pods().list(&kube::api::ListParams::default()).await?.items;
        let owners: Vec<_> = pods
            .iter()
            .map(|pod| {
                pod.metadata.owner_references.iter().flatten().map(|owner| owner.uid.clone()).collect()
            })
            .collect::<Vec<Vec<String>>>();
        Ok(if owners == [[uid.clone()], [uid.clone()]] { Ok(()) } else { Err(owners) })
    })
    .await
    .unwrap();
    world.until_ready("web", 2).await;
}
