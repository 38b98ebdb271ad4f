//! A database that is stopped by its spec, and starts again with its rows.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams};
use operator_core::conditions::find;
use postgres::{Phase, PostgresClusterStatus};
use postgres_processes::Database;
use serde_json::json;

use crate::{life::database, switchover};

/// Hibernates a database, and waits until no member has a Pod.
async fn hibernate(database: &mut Database) {
    database.change(json!({"hibernated": true})).await.unwrap();
    let is_hibernated = |status: &PostgresClusterStatus| {
        let available = find(&status.conditions, "Available").map(|condition| condition.reason.as_str());
        status.phase == Phase::Hibernated && available == Some("Hibernated")
    };
    database.until("no member to run", is_hibernated).await.unwrap();
    let pods = database.kubelet.api::<Pod>().list(&ListParams::default()).await.unwrap();
    assert_eq!(pods.items.len(), 0);
    let volumes = database.kubelet.api::<PersistentVolumeClaim>().list(&ListParams::default()).await.unwrap();
    assert_eq!(volumes.items.len(), 3);
}

#[tokio::test]
async fn hibernated_database_wakes_with_its_primary_and_all_rows() {
    let (mut database, application) = switchover::with_writes().await.unwrap();
    let before = database.status.primary.clone();
    hibernate(&mut database).await;
    // A manager that works on something else meanwhile starts nothing.
    database.change(json!({"parameters": {"work_mem": "8MB"}})).await.unwrap();
    database
        .until("the generation to be seen", |status| status.observed_generation == Some(3))
        .await
        .unwrap();
    assert_eq!(database.kubelet.api::<Pod>().list(&ListParams::default()).await.unwrap().items.len(), 0);

    database.change(json!({"hibernated": false})).await.unwrap();
    database.until_complete().await.unwrap();
    assert_eq!(
        (&database.status.primary.current, database.status.primary.epoch),
        (&before.current, before.epoch)
    );
    assert_eq!(database.primary().unwrap().query("SHOW work_mem").unwrap(), "8MB");
    let (ledger, _) = application.stop().await.unwrap();
    let (acknowledged, lost) = ledger.check(database.primary().unwrap()).await.unwrap();
    assert!(acknowledged > 0);
    assert_eq!(lost, [0; 0]);
}

#[tokio::test]
async fn member_that_does_not_wake_is_replaced() {
    let mut database = database().await.unwrap();
    hibernate(&mut database).await;
    let primary = database.status.primary.current.clone();
    let claims = database.kubelet.api::<PersistentVolumeClaim>();
    claims.delete(&primary, &DeleteParams::default()).await.unwrap();
    database.change(json!({"hibernated": false})).await.unwrap();
    database.until_failed_over().await.unwrap();
    assert_ne!(database.status.primary.current, primary);
}
