//! Volumes that a cluster leaves, and the next one of its name takes over.

use std::collections::BTreeSet;

use anyhow::Result;
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim, Pod};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use postgres::{CLUSTER_LABEL, CLUSTER_UID, FORCE_PROMOTE, Phase, PostgresCluster, PostgresClusterStatus};
use postgres_processes::{Database, Member};
use serde_json::json;

use crate::{
    application,
    ledger::{Ledger, connect},
    life::database,
    support::TestEnv,
};

/// Rows of each life.
const ROWS: usize = 20;

/// Writes rows to the primary, all of which must be acknowledged.
async fn write(database: &mut Database, ledger: &mut Ledger) -> Result<()> {
    let client = connect(database.primary()?).await?;
    for _ in 0..ROWS {
        assert!(ledger.write(&client).await);
    }
    Ok(())
}

/// Creates a database with rows.
async fn with_rows() -> Result<(Database, Ledger)> {
    let mut database = database().await?;
    let mut ledger = Ledger::create(database.primary()?)?;
    write(&mut database, &mut ledger).await?;
    Ok((database, ledger))
}

/// Creates the cluster again, and checks that it has all rows and takes others.
async fn check_adopted(database: &mut Database, ledger: &mut Ledger) -> Result<()> {
    let before = database.status.clone();
    database.create(json!({"size": 3})).await?;
    database.until_complete().await?;
    let status = &database.status;
    assert_eq!(status.system_id, before.system_id);
    assert!(status.timeline_claimed > before.timeline_claimed, "{:?}", status.timeline_claimed);
    assert!(status.adoption.as_ref().is_some_and(|adoption| adoption.done));
    let (rows, lost) = ledger.check(database.primary()?).await?;
    assert_eq!(lost, [0; 0], "of {rows} rows\n{}", database.kubelet.logs());
    write(database, ledger).await
}

/// Returns status, reason, and message of a condition.
fn condition(status: &PostgresClusterStatus, type_: &str) -> (String, String, String) {
    let found = status.conditions.iter().find(|condition| condition.type_ == type_).unwrap();
    (found.status.clone(), found.reason.clone(), found.message.clone())
}

fn has_reason(status: &PostgresClusterStatus, type_: &str, reason: &str) -> bool {
    status.conditions.iter().any(|condition| condition.type_ == type_ && condition.reason == reason)
}

async fn reasons(database: &Database) -> Result<BTreeSet<String>> {
    let events = database.kubelet.api::<Event>().list(&ListParams::default()).await?;
    Ok(events.into_iter().filter_map(|event| event.reason).collect())
}

#[tokio::test]
async fn rows_are_there_again_with_a_new_password() {
    let (mut database, mut ledger) = with_rows().await.unwrap();
    let old = application::secret(&database.kubelet).await.unwrap().remove("uri").unwrap();
    database.delete().await.unwrap();
    database.until_deleted().await.unwrap();
    check_adopted(&mut database, &mut ledger).await.unwrap();

    let new = application::secret(&database.kubelet).await.unwrap().remove("uri").unwrap();
    assert_ne!(old, new);
    application::connect(database.primary().unwrap(), &new).await.unwrap();
    assert!(application::connect(database.primary().unwrap(), &old).await.is_err());
    let (status, reason, _) = condition(&database.status, "VolumesRetained");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "Adopted"));
    let reasons = reasons(&database).await.unwrap();
    assert!(reasons.contains("VolumesAdopted") && !reasons.contains("FailoverStarted"), "{reasons:?}");

    // The volumes belong to the new cluster, and new members have numbers of their own.
    database.change(json!({"size": 4})).await.unwrap();
    database.until("larger", |status| status.ready_members == 4).await.unwrap();
    let cluster = database.kubelet.api::<PostgresCluster>().get("db").await.unwrap();
    let volumes = database.kubelet.api::<PersistentVolumeClaim>();
    for name in ["db-1", "db-2", "db-3", "db-4"] {
        let volume = volumes.get(name).await.unwrap();
        assert_eq!(volume.annotations().get(CLUSTER_UID), cluster.metadata.uid.as_ref(), "{name}");
        assert_eq!(volume.annotations()["lukeb0nd.com/members"], "db-1,db-2,db-3,db-4", "{name}");
    }
}

#[tokio::test]
async fn rows_of_later_timelines_are_there_again() {
    let (mut database, mut ledger) = with_rows().await.unwrap();
    for epoch in [2, 3] {
        database.primary().unwrap().kill().unwrap();
        let is_done = |status: &PostgresClusterStatus| {
            status.primary.epoch >= epoch && !status.primary.current.is_empty()
        };
        database.until("failed over", is_done).await.unwrap();
        write(&mut database, &mut ledger).await.unwrap();
        for member in &mut database.kubelet.members {
            if !member.runs() {
                member.start().unwrap();
            }
        }
        database.until_complete().await.unwrap();
    }
    // The power fails on all nodes at once, and nobody stops cleanly.
    for member in &mut database.kubelet.members {
        member.kill().unwrap();
    }
    database.delete().await.unwrap();
    database.until_deleted().await.unwrap();
    check_adopted(&mut database, &mut ledger).await.unwrap();
}

#[tokio::test]
async fn clusters_that_are_deleted_and_created_quickly_use_a_volume_one_after_the_other() {
    let (mut database, mut ledger) = with_rows().await.unwrap();
    let status = database.status.clone();
    for _ in 0..2 {
        database.delete().await.unwrap();
        database.create(json!({"size": 3})).await.unwrap();
        // The adoption is interrupted as soon as it has begun.
        database.until("begun", |status| status.adoption.is_some()).await.unwrap();
    }
    database.delete().await.unwrap();
    database.status = status;
    check_adopted(&mut database, &mut ledger).await.unwrap();
}

#[tokio::test]
async fn missing_volume_needs_a_person() {
    let (mut database, mut ledger) = with_rows().await.unwrap();
    database.delete().await.unwrap();
    database.until_deleted().await.unwrap();
    let volumes = database.kubelet.api::<PersistentVolumeClaim>();
    volumes.delete("db-2", &DeleteParams::default()).await.unwrap();
    let before = database.status.clone();
    database.create(json!({"size": 3})).await.unwrap();
    let names_it = |status: &PostgresClusterStatus| {
        has_reason(status, "Available", "NoQuorum")
            && condition(status, "Available").2.starts_with("1 more of db-2 must answer")
    };
    database.until("incomplete", names_it).await.unwrap();
    assert_eq!((database.status.phase, database.status.primary.target.as_str()), (Phase::Recovering, ""));
    database.annotate(FORCE_PROMOTE, "any").await.unwrap();
    database.until_complete().await.unwrap();
    assert_eq!(database.annotation(FORCE_PROMOTE).await.unwrap(), None);
    assert_eq!(database.status.system_id, before.system_id);
    // In this case, nothing is lost: the others had all rows.
    let (_, lost) = ledger.check(database.primary().unwrap()).await.unwrap();
    assert_eq!(lost, [0; 0]);
    write(&mut database, &mut ledger).await.unwrap();
    let names: Vec<_> = database.status.instances.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["db-1", "db-3", "db-4"]);
    assert!(reasons(&database).await.unwrap().contains("PromotionForced"));
}

#[tokio::test]
async fn volumes_of_several_databases_are_not_touched() {
    let (mut database, mut ledger) = with_rows().await.unwrap();
    database.delete().await.unwrap();
    database.until_deleted().await.unwrap();
    let volumes = database.kubelet.api::<PersistentVolumeClaim>();
    let other = json!({
        "metadata": {
            "name": "db-9", "labels": {CLUSTER_LABEL: "db"},
            "annotations": {CLUSTER_UID: "another", "lukeb0nd.com/members": "db-9"},
        },
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let other = serde_json::from_value(other).unwrap();
    volumes.create(&PostParams::default(), &other).await.unwrap();
    let all = volumes.list(&ListParams::default()).await.unwrap().items;
    database.create(json!({"size": 3})).await.unwrap();
    let is_refused = |status: &PostgresClusterStatus| has_reason(status, "Ready", "VolumeConflict");
    let before = database.status.clone();
    database
        .until("refused", |status| has_reason(status, "VolumesRetained", "VolumeConflict"))
        .await
        .unwrap();
    assert!(is_refused(&database.status) || has_reason(&database.status, "Ready", "NoPrimary"));
    let (_, _, message) = condition(&database.status, "VolumesRetained");
    assert!(
        message.contains("(db-9; db-1, db-2, db-3)") || message.contains("(db-1, db-2, db-3; db-9)"),
        "{message}"
    );
    assert_eq!(database.status.instances.len(), 0);
    assert_eq!(database.kubelet.api::<Pod>().list(&ListParams::default()).await.unwrap().items.len(), 0);
    assert_eq!(volumes.list(&ListParams::default()).await.unwrap().items, all, "nothing was changed");

    volumes.delete("db-9", &DeleteParams::default()).await.unwrap();
    database.until_complete().await.unwrap();
    assert_eq!(database.status.system_id, before.system_id);
    let (_, lost) = ledger.check(database.primary().unwrap()).await.unwrap();
    assert_eq!(lost, [0; 0]);
    write(&mut database, &mut ledger).await.unwrap();
}

#[tokio::test]
async fn fresh_database_begins_beside_the_volumes_of_the_former_one() {
    let mut env = TestEnv::new().await;
    env.ready("db", 1).await;
    env.kubectl(&["delete", "postgrescluster", "db"]).await.unwrap();
    env.until_no_pods("db").await;
    env.create("db", json!({"size": 1, "bootstrap": {"volumes": "Fresh"}})).await;
    let cluster = env.until_ready("db", 1).await;
    assert_eq!(env.volumes("db").await, ["db-1", "db-2"]);
    assert_eq!(crate::support::members(&cluster), ["db-2"]);
    let message = env.until_condition("db", "VolumesRetained", ("True", "Retained")).await;
    assert!(message.starts_with("the PersistentVolumeClaims db-1 of a former cluster"), "{message}");
    let used = |member: &Member| member.log().matches("creating the database").count();
    assert_eq!(env.members.iter().map(used).collect::<Vec<_>>(), [1, 1]);
}
