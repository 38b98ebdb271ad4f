//! Deletion of a cluster, with and without its volumes.

use k8s_openapi::{NamespaceResourceScope, api::core::v1::PersistentVolumeClaim};
use kube::{Api, Resource, ResourceExt, api::PostParams};
use postgres::{CLUSTER_LABEL, CLUSTER_UID, FINALIZER, PostgresCluster};
use postgres_processes::{Database, Kubelet, Member};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::{
    controller::{Controller, control_plane},
    support::TestEnv,
};

/// Waits until an object has the finalizer, or has not.
async fn until_finalizer(kubelet: &mut Kubelet, expected: bool) {
    let clusters = kubelet.api::<PostgresCluster>();
    let check = async |_: &[Member]| {
        let finalizers = clusters.get("db").await?.finalizers().to_vec();
        let found = finalizers.iter().any(|finalizer| finalizer == FINALIZER);
        Ok(if found == expected { Ok(()) } else { Err(finalizers) })
    };
    kubelet.until("the finalizer", check).await.unwrap();
}

/// Creates a volume that was made for another cluster of the name.
async fn create_volume_of_another_life(kubelet: &Kubelet, name: &str) {
    let volume = json!({
        "metadata": {
            "name": name,
            "labels": {CLUSTER_LABEL: "db"},
            "annotations": {CLUSTER_UID: "another"},
        },
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let volume = serde_json::from_value(volume).unwrap();
    kubelet.api::<PersistentVolumeClaim>().create(&PostParams::default(), &volume).await.unwrap();
}

async fn names<K>(api: Api<K>) -> Vec<String>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    crate::support::names(&api, "db").await
}

#[tokio::test]
async fn volumes_are_deleted_with_the_cluster_if_the_spec_says_so() {
    let spec = json!({"size": 3, "retention": {"whenDeleted": "Delete"}});
    let mut database = Database::with(spec).await.unwrap();
    database.until_complete().await.unwrap();
    until_finalizer(&mut database.kubelet, true).await;
    create_volume_of_another_life(&database.kubelet, "db-9").await;
    // A volume of a member that was scaled away belongs to the cluster as well.
    database.change(json!({"size": 2})).await.unwrap();
    database.until("scaled", |status| status.instances.len() == 2).await.unwrap();
    database.delete().await.unwrap();
    database.until_deleted().await.unwrap();
    assert_eq!(names(database.kubelet.api::<PersistentVolumeClaim>()).await, ["db-9"]);
    let requests = database.kubelet.harness.requests_in(&database.kubelet.namespace).unwrap().entries;
    let deletions = requests.iter().filter(|entry| entry.verb == "delete" && entry.code < 300);
    let deletions: Vec<_> = deletions.map(|entry| (&*entry.resource, &*entry.name)).collect();
    let (pods, volumes) = ("pods", "persistentvolumeclaims");
    let expected = [
        (pods, "db-3"),
        (pods, "db-2"),
        (pods, "db-1"),
        (volumes, "db-1"),
        (volumes, "db-2"),
        (volumes, "db-3"),
    ];
    assert_eq!(deletions, expected);
    for member in &database.kubelet.members {
        let log = member.log();
        assert!(log.contains("PostgreSQL has ended") && !log.contains("Immediate"), "{log}");
    }
}

#[tokio::test]
async fn finalizer_goes_when_the_volumes_are_to_stay() {
    let mut env = TestEnv::new().await;
    env.create("db", json!({"size": 1, "retention": {"whenDeleted": "Delete"}})).await;
    env.until_ready("db", 1).await;
    until_finalizer(&mut env, true).await;
    env.change("db", json!({"retention": {"whenDeleted": "Retain"}})).await;
    until_finalizer(&mut env, false).await;
    env.kubectl(&["delete", "postgrescluster", "db"]).await.unwrap();
    env.until_no_pods("db").await;
    assert_eq!(env.volumes("db").await, ["db-1"]);
}

/// Creates a cluster of one member that is deleted with its volumes.
async fn create_to_vanish(env: &mut TestEnv) {
    env.create("db", json!({"size": 1, "retention": {"whenDeleted": "Delete"}})).await;
    env.until_ready("db", 1).await;
}

async fn delete_and_keep_pods(env: &TestEnv) {
    env.kubectl(&["delete", "postgrescluster", "db", "--cascade=orphan", "--wait=false"]).await.unwrap();
}

/// Waits until the cluster is gone. Whoever keeps its Pods keeps their volumes.
async fn until_only_the_member_is_left(env: &mut TestEnv) {
    let clusters = env.api::<PostgresCluster>();
    env.eventually("the cluster to be gone", async || {
        Ok(clusters.get_opt("db").await?.map_or(Ok(()), |cluster| Err(cluster.metadata.finalizers)))
    })
    .await;
    assert_eq!((env.pods("db").await, env.volumes("db").await), (vec!["db-1".into()], vec!["db-1".into()]));
}

#[tokio::test]
async fn orphaned_pods_keep_their_volumes() {
    let mut env = TestEnv::new().await;
    create_to_vanish(&mut env).await;
    delete_and_keep_pods(&env).await;
    until_only_the_member_is_left(&mut env).await;
}

#[tokio::test]
async fn pods_that_became_orphans_without_a_controller_keep_their_volumes() {
    let (cluster, kubelet) = control_plane().await.unwrap();
    let first = Controller::start(cluster).await.unwrap();
    let mut env = TestEnv::on(kubelet);
    create_to_vanish(&mut env).await;
    first.kill();
    delete_and_keep_pods(&env).await;
    // Only the finalizer of the garbage collector says that a person wants orphans.
    env.until("db", "the garbage collector to be done", |cluster: &PostgresCluster| {
        cluster.finalizers() == [FINALIZER]
    })
    .await;
    let _second = Controller::start(cluster).await.unwrap();
    until_only_the_member_is_left(&mut env).await;
}
