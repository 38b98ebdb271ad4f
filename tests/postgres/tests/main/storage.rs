//! Claims that grow, on a real API server.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{Patch, PatchParams};
use operator_core::conditions::is_true;
use postgres::PostgresCluster;
use serde_json::json;

use crate::{
    support::{TestEnv, status},
    switchover::pods,
    volumes::{Provider, request},
};

/// Creates a cluster of two members with volumes of 1 GiB.
async fn cluster(may_grow: bool) -> (TestEnv, Provider) {
    let mut env = TestEnv::new().await;
    let mut provider = Provider::new(&env, may_grow).await;
    env.create("db", json!({"size": 2, "storage": {"storageClassName": provider.class}})).await;
    env.until_ready("db", 2).await;
    provider.bind(&mut env, "db-1").await;
    provider.bind(&mut env, "db-2").await;
    (env, provider)
}

/// Waits until a claim requests a size.
async fn until_requested(env: &mut TestEnv, claim: &str, size: &str) {
    env.until(claim, &format!("{claim} to request {size}"), |claim: &PersistentVolumeClaim| {
        request(claim) == size
    })
    .await;
}

/// Waits until a condition of the cluster has this message.
async fn until_message(env: &mut TestEnv, message: &str) {
    env.until("db", message, |cluster: &PostgresCluster| {
        status(cluster).conditions.iter().any(|condition| condition.message == message)
    })
    .await;
}

/// Returns the answers of the API server to patches of claims by the controller.
fn patches(env: &TestEnv) -> Vec<u16> {
    let requests = env.harness.requests_in(&env.namespace).unwrap().entries;
    let patches = requests.into_iter().filter(|entry| {
        (entry.resource.as_ref(), entry.verb.as_ref()) == ("persistentvolumeclaims", "patch")
    });
    patches.map(|entry| entry.code).collect()
}

#[tokio::test]
async fn volumes_grow_without_a_restart_and_never_shrink() {
    let (mut env, provider) = cluster(true).await;
    let before = pods(&env.api::<Pod>()).await.unwrap();
    let larger = Patch::Merge(json!({"spec": {"resources": {"requests": {"storage": "3Gi"}}}}));
    let claims = env.api::<PersistentVolumeClaim>();
    claims.patch("db-2", &PatchParams::default(), &larger).await.unwrap();
    env.change("db", json!({"storage": {"size": "2Gi"}})).await;
    until_requested(&mut env, "db-1", "2Gi").await;
    let sizes = "the volume of db-1 has 1Gi of 2Gi; the volume of db-2 has 1Gi of 3Gi";
    until_message(&mut env, sizes).await;
    env.until_condition("db", "StorageHealthy", ("False", "Growing")).await;

    provider.set_status("db-2", json!({"capacity": {"storage": "3Gi"}})).await;
    let now = jiff::Timestamp::now().to_string();
    let pending = json!({"type": "FileSystemResizePending", "status": "True", "lastTransitionTime": now});
    provider.set_status("db-1", json!({"conditions": [pending]})).await;
    until_message(&mut env, "the volume of db-1 has 1Gi of 2Gi (the kubelet resizes the file system)").await;
    provider.set_status("db-1", json!({"capacity": {"storage": "2Gi"}, "conditions": []})).await;
    env.until_condition("db", "StorageHealthy", ("True", "AsSpecified")).await;
    env.until_ready("db", 2).await;
    assert_eq!(pods(&env.api::<Pod>()).await.unwrap(), before, "no Pod was replaced");
    assert_eq!(request(&claims.get("db-2").await.unwrap()), "3Gi");
    assert_eq!(patches(&env), [200]);
    provider.delete().await;
}

#[tokio::test]
async fn refused_growth_is_reported_blocks_nothing_and_is_tried_again() {
    let (mut env, provider) = cluster(false).await;
    env.change("db", json!({"storage": {"size": "2Gi"}})).await;
    let message = env.until_condition("db", "StorageHealthy", ("False", "ResizeRefused")).await;
    assert!(message.contains("only dynamically provisioned pvc can be resized"), "{message}");
    assert!(message.contains("use a storage class with allowVolumeExpansion"), "{message}");
    // The next member has the new size at once.
    env.change("db", json!({"size": 3})).await;
    let cluster = env.until_ready("db", 3).await;
    assert!(is_true(&status(&cluster).conditions, "Ready"));
    until_requested(&mut env, "db-3", "2Gi").await;
    let refused = patches(&env);
    assert!(refused.len() <= 6 && refused.iter().all(|code| *code == 403), "{refused:?}");

    provider.allow_growth().await;
    until_requested(&mut env, "db-1", "2Gi").await;
    until_requested(&mut env, "db-2", "2Gi").await;
    env.until_condition("db", "StorageHealthy", ("False", "Growing")).await;
    provider.delete().await;
}
