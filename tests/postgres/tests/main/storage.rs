//! Claims that grow, on a real API server.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use operator_core::conditions::{find, is_true};
use postgres::{PostgresCluster, condition_types::STORAGE_HEALTHY};
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

/// Waits until StorageHealthy has a message that is so. It also names members with little space, which
/// depends on the disk of the machine.
async fn until_message(env: &mut TestEnv, what: &str, is_so: impl Fn(&str) -> bool) {
    env.until("db", what, |cluster: &PostgresCluster| {
        find(&status(cluster).conditions, STORAGE_HEALTHY).is_some_and(|found| is_so(&found.message))
    })
    .await;
}

/// Waits until a claim names both members, and says that its own has data.
async fn until_recorded(env: &mut TestEnv, claim: &str) {
    env.until(claim, "the record of the members", |claim: &PersistentVolumeClaim| {
        let has = |name: &str, value: &str| claim.annotations().get(name).is_some_and(|it| it == value);
        has("lukeb0nd.com/members", "db-1,db-2") && has("lukeb0nd.com/has-data", "true")
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
    until_recorded(&mut env, "db-1").await;
    until_recorded(&mut env, "db-2").await;
    let patches_before = patches(&env).len();
    env.change("db", json!({"storage": {"size": "2Gi"}})).await;
    until_requested(&mut env, "db-1", "2Gi").await;
    let sizes = "the volume of db-1 has 1Gi of 2Gi; the volume of db-2 has 1Gi of 3Gi";
    until_message(&mut env, sizes, |message| message.starts_with(sizes)).await;
    env.until_condition("db", "StorageHealthy", ("False", "Growing")).await;

    provider.set_status("db-2", json!({"capacity": {"storage": "3Gi"}})).await;
    let now = jiff::Timestamp::now().to_string();
    let pending = json!({"type": "FileSystemResizePending", "status": "True", "lastTransitionTime": now});
    provider.set_status("db-1", json!({"conditions": [pending]})).await;
    let pending = "the volume of db-1 has 1Gi of 2Gi (the kubelet resizes the file system)";
    until_message(&mut env, pending, |message| message.starts_with(pending)).await;
    provider.set_status("db-1", json!({"capacity": {"storage": "2Gi"}, "conditions": []})).await;
    until_message(&mut env, "no volume to be too small", |message| !message.contains("the volume of")).await;
    env.until_ready("db", 2).await;
    assert_eq!(pods(&env.api::<Pod>()).await.unwrap(), before, "no Pod was replaced");
    assert_eq!(request(&claims.get("db-2").await.unwrap()), "3Gi");
    // The others record the members.
    assert_eq!(patches(&env).len(), patches_before + 1);
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
    let refused = patches(&env).into_iter().filter(|code| *code == 403).count();
    assert!((2..=6).contains(&refused), "{refused}");

    provider.allow_growth().await;
    until_requested(&mut env, "db-1", "2Gi").await;
    until_requested(&mut env, "db-2", "2Gi").await;
    env.until_condition("db", "StorageHealthy", ("False", "Growing")).await;
    provider.delete().await;
}
