//! What ends and begins backups beside the members.

use jiff::{SignedDuration, Timestamp};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use postgres::{PostgresBackup, PostgresBackupPhase as Phase, PostgresCluster};
use postgres_processes::{Member, ObjectStore};
use serde_json::{Value, json};

use crate::{
    archive::{archive, database, database_on, writer},
    backups::{create, create_slow, until, until_complete},
    controller::{Controller, control_plane},
};

#[tokio::test]
async fn backup_ends_when_its_cluster_is_deleted() {
    let store = ObjectStore::start().await.unwrap();
    let mut database = database(&store, 1, store.backup()).await.unwrap();
    writer(&database).unwrap();
    create_slow(&mut database).await.unwrap();
    create(&database, "second", "Primary").await.unwrap();
    until(&mut database, "second", |status| !status.error.is_empty()).await.unwrap();
    database.delete().await.unwrap();
    let status = until(&mut database, "slow", |status| status.phase.is_final()).await.unwrap();
    let error = "the PostgresCluster was deleted before the backup was complete";
    assert_eq!((status.phase, status.error.as_str()), (Phase::Failed, error));
    database.until_deleted().await.unwrap();
    let api: Api<PostgresBackup> = database.kubelet.api();
    let second = api.get("second").await.unwrap().status.unwrap();
    assert_eq!(second.phase, Phase::Pending, "another cluster of the name can make it");
}

#[tokio::test]
async fn backup_goes_on_when_the_controller_restarts() {
    let store = ObjectStore::start().await.unwrap();
    let (cluster, kubelet) = control_plane().await.unwrap();
    let first = Controller::start(cluster).await.unwrap();
    let mut database = database_on(kubelet, &store, 1, store.backup()).await.unwrap();
    let archive = archive(&store, &database).await.unwrap();
    writer(&database).unwrap();
    create_slow(&mut database).await.unwrap();
    first.kill();

    // The next one finds that the backup runs.
    let second = Controller::start(cluster).await.unwrap();
    create(&database, "second", "Primary").await.unwrap();
    let status = until(&mut database, "second", |status| !status.error.is_empty()).await.unwrap();
    assert_eq!(status.error, "waiting for the end of the PostgresBackup slow");
    second.kill();

    // The backup ends while there is no controller.
    database.primary().unwrap().sql("CHECKPOINT").unwrap();
    let ended = async |_: &[Member]| {
        let complete = archive.backups().await?.complete;
        Ok(complete.first().map(|backup| backup.id.to_string()).ok_or("none is complete"))
    };
    let key = database.kubelet.until("the end of the backup", ended).await.unwrap();
    let _third = Controller::start(cluster).await.unwrap();
    let status = until_complete(&mut database, "slow").await.unwrap();
    assert_eq!((status.key, status.member.as_str()), (key, "db-1"));
    until_complete(&mut database, "second").await.unwrap();
    assert_eq!(archive.backups().await.unwrap().complete.len(), 2, "the first one was made once");
}

#[tokio::test]
async fn schedule_that_was_suspended_begins_like_a_new_one() {
    let store = ObjectStore::start().await.unwrap();
    let mut database = database(&store, 1, store.backup()).await.unwrap();
    let schedule = |suspend: bool| json!({"backup": {"schedules": [{"name": "night", "cron": "0 3 * * *", "suspend": suspend}]}});
    database.change(schedule(false)).await.unwrap();
    database.until("the schedule", |status| status.schedules.len() == 1).await.unwrap();
    let mut missed: Value = serde_json::to_value(&database.status.schedules).unwrap();
    let long_ago = Timestamp::now() - SignedDuration::from_hours(50);
    missed[0]["lastTime"] = json!(long_ago.strftime("%FT%TZ").to_string());

    database.change(schedule(true)).await.unwrap();
    database.until("no schedule", |status| status.schedules.is_empty()).await.unwrap();
    let patch = Patch::Merge(json!({"status": {"schedules": missed}}));
    let clusters: Api<PostgresCluster> = database.kubelet.api();
    clusters.patch_status("db", &PatchParams::default(), &patch).await.unwrap();
    database.until("no schedule", |status| status.schedules.is_empty()).await.unwrap();
    let resumed = Timestamp::now() - SignedDuration::from_secs(1);
    database.change(schedule(false)).await.unwrap();
    database.until("the schedule", |status| status.schedules.len() == 1).await.unwrap();
    assert!(database.status.schedules[0].last_time.0 >= resumed, "{:?}", database.status.schedules);
    let backups: Api<PostgresBackup> = database.kubelet.api();
    let backups = backups.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(backups, [], "it misses nothing while it is suspended");
}
