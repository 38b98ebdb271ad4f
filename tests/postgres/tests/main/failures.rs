//! Volumes that are lost or belong to somebody else, and writes that are denied.

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{PersistentVolumeClaim, ResourceQuota},
};
use kube::{
    Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::support::{TestEnv, members};

#[tokio::test]
async fn volumes_of_a_deleted_cluster_are_not_touched_by_one_that_refuses_them() {
    let mut env = TestEnv::new().await;
    env.ready("db", 1).await;
    let volumes = env.api::<PersistentVolumeClaim>();
    let before = volumes.get("db-1").await.unwrap();
    env.kubectl(&["delete", "postgrescluster", "db"]).await.unwrap();
    env.until_no_pods("db").await;

    env.create("db", json!({"size": 1, "bootstrap": {"volumes": "Refuse"}})).await;
    let message = env.until_condition("db", "Scaling", ("False", "VolumeConflict")).await;
    assert!(message.contains("PersistentVolumeClaim db-1") && message.contains("not touched"), "{message}");
    assert!(env.pods("db").await.is_empty());
    let after = volumes.get("db-1").await.unwrap();
    assert_eq!((after.uid(), after.spec), (before.uid(), before.spec));
}

#[tokio::test]
async fn foreign_volume_with_the_name_of_a_member_is_not_used() {
    let mut env = TestEnv::new().await;
    let theirs = serde_json::from_value(json!({
        "metadata": {"name": "db-1"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }))
    .unwrap();
    env.api::<PersistentVolumeClaim>().create(&PostParams::default(), &theirs).await.unwrap();
    env.create("db", json!({"size": 1})).await;
    env.until_condition("db", "Ready", ("False", "NoPrimary")).await;
    env.until_condition("db", "Scaling", ("False", "VolumeConflict")).await;
    assert!(env.pods("db").await.is_empty());
}

#[tokio::test]
async fn lost_volume_is_reported_and_the_member_can_be_replaced() {
    let mut env = TestEnv::new().await;
    env.ready("db", 2).await;
    // The protection finalizer keeps the volume until its Pod is gone.
    env.kubectl(&["delete", "pvc", "db-2", "--wait=false"]).await.unwrap();
    env.kubectl(&["delete", "pod", "db-2"]).await.unwrap();
    let message = env.until_condition("db", "Scaling", ("False", "VolumeLost")).await;
    assert!(message.contains("lower spec.size by one"), "{message}");
    assert_eq!(env.pods("db").await, ["db-1"]);

    env.change("db", json!({"size": 1})).await;
    env.until_ready("db", 1).await;
    env.change("db", json!({"size": 2})).await;
    assert_eq!(members(&env.until_ready("db", 2).await), ["db-1", "db-3"]);
}

#[tokio::test]
async fn full_quota_is_reported_and_the_cluster_grows_when_there_is_room() {
    let mut env = TestEnv::new().await;
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "tight"},
        "spec": {"hard": {"persistentvolumeclaims": "1"}},
    });
    let quotas = env.api::<ResourceQuota>();
    quotas.patch("tight", &PatchParams::apply("test"), &Patch::Apply(&quota)).await.unwrap();
    env.until("tight", "the quota to count", |quota: &ResourceQuota| {
        quota.status.as_ref().is_some_and(|status| status.used.is_some())
    })
    .await;
    env.create("db", json!({"size": 2})).await;
    let message = env.until_condition("db", "Scaling", ("False", "Denied")).await;
    assert!(message.contains("exceeded quota: tight"), "{message}");
    quotas.delete("tight", &DeleteParams::default()).await.unwrap();
    env.until_ready("db", 2).await;
}

#[tokio::test]
async fn foreign_service_is_left_alone_and_holds_up_no_member() {
    let mut env = TestEnv::new().await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "db-rw"},
        "spec": {"ports": [{"port": 80}], "selector": {"app": "theirs"}},
    });
    let services = env.api::<k8s_openapi::api::core::v1::Service>();
    services.patch("db-rw", &PatchParams::apply("test"), &Patch::Apply(&service)).await.unwrap();
    env.create("db", json!({"size": 1})).await;
    env.until_condition("db", "Available", ("True", "AsSpecified")).await;
    let message = env.until_condition("db", "Ready", ("False", "NameConflict")).await;
    assert!(message.contains("db-rw"), "{message}");
    let theirs = services.get("db-rw").await.unwrap();
    assert!(theirs.meta().owner_references.is_none());
    assert_eq!(theirs.spec.unwrap().selector.unwrap()["app"], "theirs");
}

#[tokio::test]
async fn deleted_lease_is_recreated_and_has_to_age() {
    let mut env = TestEnv::new().await;
    env.ready("db", 1).await;
    let leases = env.api::<Lease>();
    let first = leases.get("db").await.unwrap();
    assert!(lease::record(&first).holder.starts_with("db-1_"), "{first:?}");
    leases.delete("db", &DeleteParams::default()).await.unwrap();
    let second = env
        .eventually("the Lease to be recreated", async || {
            Ok(leases.get_opt("db").await?.filter(|lease| lease.uid() != first.uid()).ok_or("missing"))
        })
        .await;
    assert!(!lease::record(&second).free);
    env.eventually("the primary to hold it", async || {
        let record = lease::record(&leases.get("db").await?);
        Ok(if record.holder.starts_with("db-1_") { Ok(()) } else { Err(record) })
    })
    .await;
}
