//! Deletion of a PodSet with each propagation policy.

use cluster::wait::eventually;
use kube::api::{DeleteParams, PropagationPolicy};
use serde_json::json;

use crate::support::{GARBAGE_COLLECTION_TIMEOUT, TIMEOUT, TestEnv};

/// Deletes the PodSet `web` with a propagation policy, and waits until it is gone.
async fn delete(env: &TestEnv, policy: PropagationPolicy) {
    let params = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
    env.sets().delete("web", &params).await.unwrap();
    eventually("the PodSet to be gone", GARBAGE_COLLECTION_TIMEOUT, async || {
        Ok(env.sets().get_opt("web").await?.is_none())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn orphan_deletion_keeps_pods_and_a_new_podset_adopts_them() {
    let env = TestEnv::new().await;
    env.create("web", json!({"replicas": 2})).await;
    env.until_ready("web", 2).await;
    delete(&env, PropagationPolicy::Orphan).await;
    assert_eq!(env.pod_names().await, ["web-pod-1", "web-pod-2"]);
    env.create("web", json!({"replicas": 2})).await;
    env.until_ready("web", 2).await;
    assert_eq!(env.pod_names().await, ["web-pod-1", "web-pod-2"]);
}

#[tokio::test]
async fn foreground_deletion_deletes_pods_first_and_recreates_none() {
    let env = TestEnv::new().await;
    env.create("web", json!({"replicas": 3})).await;
    env.until_ready("web", 3).await;
    delete(&env, PropagationPolicy::Foreground).await;
    assert_eq!(env.pod_names().await, [""; 0], "the Pods are deleted before their PodSet");
    let writes = env.harness.requests_in(&env.namespace).unwrap();
    let writes = writes.filter(|entry| entry.resource == "pods" && entry.is_write()).entries;
    assert_eq!(writes.len(), 3, "only the first three creates: {writes:?}");
}

#[tokio::test]
async fn recreated_podset_gets_new_pods() {
    let env = TestEnv::new().await;
    env.create("web", json!({"replicas": 2})).await;
    env.until_ready("web", 2).await;
    env.sets().delete("web", &DeleteParams::background()).await.unwrap();
    eventually("the name to be free", TIMEOUT, async || Ok(env.sets().get_opt("web").await?.is_none()))
        .await
        .unwrap();
    let uid = env.create("web", json!({"replicas": 2})).await.metadata.uid.unwrap();
    eventually("only the two Pods of the new PodSet to exist", GARBAGE_COLLECTION_TIMEOUT, async || {
        let pods = env.pods().list(&kube::api::ListParams::default()).await?.items;
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
    env.until_ready("web", 2).await;
}
