//! Databases that are recovered from the archive of another cluster.

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use operator_core::conditions::find;
use postgres::{Phase, PostgresBackup, PostgresCluster, PostgresClusterStatus};
use postgres_model::{
    archive::{ArchiveKey, ArchiveObject, Lineage},
    timeline::TimelineId,
    wal_file::WalFileName,
};
use postgres_processes::{Database, ObjectStore};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    archive::{archive, database, fail_over, until_archived, until_replicated, writer},
    backups::{create, rows, until_complete},
    ledger::{Ledger, connect},
};

/// Returns `spec.bootstrap` of a cluster that recovers from the archive of a database.
pub(crate) async fn bootstrap(store: &ObjectStore, source: &Database, target: Value) -> Result<Value> {
    let api: Api<PostgresCluster> = source.kubelet.api();
    let uid = api.get("db").await?.uid().context("no UID")?;
    let mut object_store = store.backup()["objectStore"].clone();
    object_store["serverName"] = json!(Lineage::new(None, "db", &uid)?.to_string());
    Ok(json!({"recovery": {"source": {"objectStore": object_store}, "target": target}}))
}

/// Creates a cluster in a namespace of its own.
pub(crate) async fn recover(store: &ObjectStore, spec: Value) -> Result<Database> {
    let database = Database::prepare().await?;
    store.create_secret(&database.kubelet, None).await?;
    database.create(spec).await?;
    Ok(database)
}

/// Returns the number of rows in the ledger.
pub(crate) async fn count(database: &mut Database) -> Result<i64> {
    let client = connect(database.primary()?).await?;
    Ok(client.query_one("SELECT count(*) FROM ledger", &[]).await?.get(0))
}

/// Returns the present position in the WAL, and the present time.
async fn present(database: &mut Database) -> Result<(String, String)> {
    let client = connect(database.primary()?).await?;
    let now = "SELECT pg_current_wal_insert_lsn()::text, \
               to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')";
    let row = client.query_one(now, &[]).await?;
    Ok((row.get(0), row.get(1)))
}

/// Creates a database with a backup, and some rows after it. All are archived. Returns their number.
async fn source(store: &ObjectStore) -> Result<(Database, Ledger, i64)> {
    let mut source = database(store, 1, store.backup()).await?;
    let archive = archive(store, &source).await?;
    let mut ledger = writer(&source)?;
    rows(&mut source, &mut ledger, 20).await?;
    create(&source, "first", "Primary").await?;
    until_complete(&mut source, "first").await?;
    let expected = rows(&mut source, &mut ledger, 10).await?;
    until_archived(&mut source, &archive).await?;
    Ok((source, ledger, expected))
}

#[tokio::test]
async fn database_recovers_to_the_end_of_the_archive_while_the_source_goes_on() {
    let store = ObjectStore::start().await.unwrap();
    let (mut source, mut ledger, expected) = source(&store).await.unwrap();
    let later = rows(&mut source, &mut ledger, 5).await.unwrap();
    assert_eq!(later, expected + 5, "the last ones are not archived");
    let bootstrap = bootstrap(&store, &source, json!({})).await.unwrap();
    let spec = json!({"size": 2, "bootstrap": bootstrap, "backup": store.backup()});
    let mut database = recover(&store, spec).await.unwrap();
    database.until("recovering", |status| status.phase == Phase::Recovering).await.unwrap();
    database.until_complete().await.unwrap();
    assert_eq!(count(&mut database).await.unwrap(), expected);
    let has_backup = |status: &PostgresClusterStatus| {
        status.recovery.as_ref().is_some_and(|it| !it.first_backup.is_empty())
    };
    database.until("the first backup", has_backup).await.unwrap();
    let status = database.status.clone();
    assert!(status.recovery.as_ref().unwrap().done);
    assert_eq!(status.system_id, source.status.system_id);
    assert_eq!(status.timeline_claimed.unwrap().get(), 2);

    // It has an archive of its own with a first backup, from which it can be recovered again.
    let archive = archive(&store, &database).await.unwrap();
    let first = status.recovery.unwrap().first_backup;
    assert!(first.starts_with("db-recovered-"), "{first}");
    until_complete(&mut database, &first).await.unwrap();
    let expected = rows(&mut database, &mut ledger, 7).await.unwrap();
    until_archived(&mut database, &archive).await.unwrap();
    let bootstrap = self::bootstrap(&store, &database, json!({})).await.unwrap();
    let mut again = recover(&store, json!({"size": 1, "bootstrap": bootstrap})).await.unwrap();
    again.until_complete().await.unwrap();
    assert_eq!(count(&mut again).await.unwrap(), expected);

    // The first backup is created once.
    let backups: Api<PostgresBackup> = database.kubelet.api();
    backups.delete(&first, &DeleteParams::default()).await.unwrap();
    create(&database, "second", "PreferStandby").await.unwrap();
    until_complete(&mut database, "second").await.unwrap();
    assert!(backups.get_opt(&first).await.unwrap().is_none());
}

/// Writes the status of a backup that failed at this time.
async fn fail(database: &Database, backup: &str, stopped: Timestamp) -> Result<()> {
    let uid = database.kubelet.api::<PostgresCluster>().get("db").await?.uid();
    let patch = json!({"status": {
        "phase": "Failed", "error": "the store was full", "clusterUID": uid,
        "stoppedAt": stopped.strftime("%FT%TZ").to_string(),
    }});
    let backups = database.kubelet.api::<PostgresBackup>();
    backups.patch_status(backup, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

#[tokio::test]
async fn failed_first_backup_is_repeated() {
    let store = ObjectStore::start().await.unwrap();
    let (source, ..) = source(&store).await.unwrap();
    let mut own = ObjectStore::start().await.unwrap();
    own.stop().unwrap();
    let bootstrap = bootstrap(&store, &source, json!({})).await.unwrap();
    let spec = json!({"size": 1, "bootstrap": bootstrap, "backup": own.backup()});
    let mut database = recover(&store, spec).await.unwrap();
    let name = |status: &PostgresClusterStatus| {
        status.recovery.as_ref().map(|recovery| recovery.first_backup.clone()).unwrap_or_default()
    };
    database.until("the first backup", |status| !name(status).is_empty()).await.unwrap();
    let first = name(&database.status);
    fail(&database, &first, Timestamp::now()).await.unwrap();
    let reason = format!("there is no backup yet; {first}: the store was full; it is repeated at 20");
    let says_so = |status: &PostgresClusterStatus| {
        find(&status.conditions, "BackupRecent").is_some_and(|recent| recent.message.starts_with(&reason))
    };
    database.until(&reason, says_so).await.unwrap();
    assert_eq!(name(&database.status), first);

    fail(&database, &first, Timestamp::now() - SignedDuration::from_mins(2)).await.unwrap();
    let second = format!("{first}-2");
    database.until("another attempt", |status| name(status) == second).await.unwrap();
    own.resume().await.unwrap();
    until_complete(&mut database, &second).await.unwrap();
    database.until("lastBackup", |status| status.last_backup.is_some()).await.unwrap();
    assert_eq!(database.status.last_backup.unwrap().name, second);
}

#[tokio::test]
async fn recovery_ends_between_two_transactions() {
    let store = ObjectStore::start().await.unwrap();
    let (mut source, mut ledger, expected) = source(&store).await.unwrap();
    let archive = archive(&store, &source).await.unwrap();
    let (lsn, time) = present(&mut source).await.unwrap();
    rows(&mut source, &mut ledger, 5).await.unwrap();
    until_archived(&mut source, &archive).await.unwrap();
    for target in [json!({"lsn": lsn}), json!({"time": time})] {
        let bootstrap = bootstrap(&store, &source, target.clone()).await.unwrap();
        let mut database = recover(&store, json!({"size": 1, "bootstrap": bootstrap})).await.unwrap();
        database.until_complete().await.unwrap();
        assert_eq!(count(&mut database).await.unwrap(), expected, "{target}");
    }
}

#[tokio::test]
async fn recovery_ends_on_either_side_of_a_failover_of_the_source() {
    let mut store = ObjectStore::start().await.unwrap();
    let mut source = database(&store, 2, store.backup()).await.unwrap();
    let archive = archive(&store, &source).await.unwrap();
    let mut ledger = writer(&source).unwrap();
    create(&source, "first", "Primary").await.unwrap();
    until_complete(&mut source, "first").await.unwrap();
    let before = rows(&mut source, &mut ledger, 10).await.unwrap();
    let (_, time) = present(&mut source).await.unwrap();
    let replicated = rows(&mut source, &mut ledger, 5).await.unwrap();
    until_archived(&mut source, &archive).await.unwrap();
    until_replicated(&mut source, replicated).await.unwrap();

    // Only the primary and the archive have these rows.
    source.kubelet.member("db-2").unwrap().kill().unwrap();
    let left_behind = rows(&mut source, &mut ledger, 3).await.unwrap();
    until_archived(&mut source, &archive).await.unwrap();
    fail_over(&mut source, &mut store).await.unwrap();
    let after = rows(&mut source, &mut ledger, 7).await.unwrap();
    assert_eq!(after, replicated + 7);
    until_archived(&mut source, &archive).await.unwrap();

    for (target, expected) in [
        (json!({}), after),
        (json!({"timeline": 1}), left_behind),
        (json!({"time": time}), before),
        (json!({"time": time, "timeline": 1}), before),
    ] {
        let bootstrap = bootstrap(&store, &source, target.clone()).await.unwrap();
        let mut database = recover(&store, json!({"size": 1, "bootstrap": bootstrap})).await.unwrap();
        database.until_complete().await.unwrap();
        assert_eq!(count(&mut database).await.unwrap(), expected, "{target}");
    }
}

#[tokio::test]
async fn recovery_only_reads_the_archive_of_the_source() {
    let store = ObjectStore::start().await.unwrap();
    let (source, _, expected) = source(&store).await.unwrap();
    let reader = store.read_only().await.unwrap();
    let object = ArchiveObject::Wal(WalFileName::History(TimelineId::new(7).unwrap()));
    let archive = archive(&reader, &source).await.unwrap();
    let bootstrap = bootstrap(&reader, &source, json!({})).await.unwrap();
    let lineage = bootstrap["recovery"]["source"]["objectStore"]["serverName"].as_str().unwrap();
    let key = ArchiveKey { lineage: lineage.parse().unwrap(), system: archive.system(), object };
    let refused = archive.store().put_new(&key, "x").await.unwrap_err().to_string();
    assert!(refused.contains("denies access"), "{refused}");
    // It archives no more.
    source.delete().await.unwrap();
    let mut source = source;
    source.until_deleted().await.unwrap();

    let before = store.objects(lineage).unwrap();
    let spec = json!({"size": 2, "bootstrap": bootstrap, "backup": store.backup()});
    let mut database = recover(&store, spec).await.unwrap();
    database.until_complete().await.unwrap();
    assert_eq!(count(&mut database).await.unwrap(), expected);
    let is_backed_up = |status: &PostgresClusterStatus| status.last_backup.is_some();
    database.until("the first backup", is_backed_up).await.unwrap();
    assert_eq!(store.objects(lineage).unwrap(), before);
    assert!(before.len() > 3, "{before:?}");
}

#[tokio::test]
async fn recovery_that_cannot_reach_its_target_says_why() {
    let store = ObjectStore::start().await.unwrap();
    let (source, _, _) = source(&store).await.unwrap();
    let before = bootstrap(&store, &source, json!({"time": "2026-01-01T00:00:00Z"})).await.unwrap();
    let beyond = bootstrap(&store, &source, json!({"lsn": "7/0"})).await.unwrap();
    let timeline = bootstrap(&store, &source, json!({"timeline": 9})).await.unwrap();
    let mut name = bootstrap(&store, &source, json!({})).await.unwrap();
    name["recovery"]["source"]["objectStore"]["serverName"] = json!("nobody");
    let mut secret = bootstrap(&store, &source, json!({})).await.unwrap();
    secret["recovery"]["source"]["objectStore"]["credentials"]["accessKeyID"]["name"] = json!("other");
    let backup = json!({"recovery": {"backupName": "missing"}});
    for (bootstrap, words) in [
        (before, "no complete backup"),
        (beyond, "lacks the WAL segment"),
        (timeline, "no history of the timeline 9"),
        (name, "there is no archive of nobody"),
        (secret, "Secret other"),
        (backup, "there is no PostgresBackup missing"),
    ] {
        let mut database = recover(&store, json!({"size": 1, "bootstrap": bootstrap})).await.unwrap();
        let failing = |status: &PostgresClusterStatus| {
            let conditions = ["Available", "Ready"].map(|type_| find(&status.conditions, type_).cloned());
            conditions
                .into_iter()
                .flatten()
                .any(|found| found.reason == "RecoveryFailing" && found.message.contains(words))
        };
        database.until(words, failing).await.unwrap();
        assert!(database.status.primary.current.is_empty());
    }
}

#[tokio::test]
async fn backup_of_a_deleted_cluster_recovers_beside_its_volumes() {
    let store = ObjectStore::start().await.unwrap();
    let (mut database, _, expected) = source(&store).await.unwrap();
    database.delete().await.unwrap();
    database.until_deleted().await.unwrap();
    let bootstrap = json!({"recovery": {"backupName": "first"}});
    database.create(json!({"size": 1, "bootstrap": bootstrap})).await.unwrap();
    let refused = |status: &PostgresClusterStatus| {
        let found = find(&status.conditions, "VolumesRetained");
        found.is_some_and(|found| found.reason == "VolumeConflict" && found.message.contains("db-1"))
    };
    database.until("the former volume", refused).await.unwrap();
    database.delete().await.unwrap();
    database.until_deleted().await.unwrap();
    let bootstrap = json!({"recovery": {"backupName": "first"}, "volumes": "Fresh"});
    database.create(json!({"size": 1, "bootstrap": bootstrap})).await.unwrap();
    database.until_complete().await.unwrap();
    assert_eq!(database.status.primary.current, "db-2");
    assert_eq!(count(&mut database).await.unwrap(), expected);
}

#[tokio::test]
async fn recovery_survives_a_kill_at_each_step() {
    let store = ObjectStore::start().await.unwrap();
    let (source, _, expected) = source(&store).await.unwrap();
    let bootstrap = bootstrap(&store, &source, json!({})).await.unwrap();
    let mut database = recover(&store, json!({"size": 1, "bootstrap": bootstrap})).await.unwrap();
    for step in ["restoring a backup", "starting as a standby", "sealed", "promoting"] {
        let has_begun = |members: &[postgres_processes::Member]| {
            members.first().is_some_and(|member| member.log().contains(step))
        };
        database.until_members(step, has_begun).await.unwrap();
        let member = &mut database.kubelet.members[0];
        member.signal(Signal::KILL).unwrap();
        member.wait().await.unwrap();
        member.start().unwrap();
    }
    database.until_complete().await.unwrap();
    assert_eq!(count(&mut database).await.unwrap(), expected);
}
