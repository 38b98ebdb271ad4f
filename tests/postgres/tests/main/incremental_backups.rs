//! Backups that are based on others.

use std::path::PathBuf;

use anyhow::Result;
use kube::api::PostParams;
use postgres::{PostgresBackup, PostgresBackupStatus, SWITCHOVER};
use postgres_processes::{Database, ObjectStore, major_version};
use serde_json::json;

use crate::{
    archive::{archive, database, fill, until_archived, until_replicated, writer},
    backups::{rows, until_complete},
    ledger::Ledger,
    recovery::{bootstrap, count, recover},
};

/// Makes an incremental backup.
async fn back_up(database: &mut Database, name: &str, target: &str) -> Result<PostgresBackupStatus> {
    let backup = json!({
        "apiVersion": "lukeb0nd.com/v1", "kind": "PostgresBackup", "metadata": {"name": name},
        "spec": {
            "clusterRef": {"name": "db"}, "type": "Incremental", "target": target, "immediateCheckpoint": true,
        },
    });
    let backup: PostgresBackup = serde_json::from_value(backup)?;
    database.kubelet.api().create(&PostParams::default(), &backup).await?;
    until_complete(database, name).await
}

/// Writes rows, and a checkpoint that the standby has. Returns the number of rows.
async fn write(database: &mut Database, ledger: &mut Ledger) -> Result<i64> {
    rows(database, ledger, 10).await?;
    database.primary()?.sql("CHECKPOINT")?;
    let rows = rows(database, ledger, 1).await?;
    until_replicated(database, rows).await?;
    Ok(rows)
}

#[tokio::test]
async fn recovery_from_incremental_backups_has_all_rows() {
    let store = ObjectStore::start().await.unwrap();
    let mut source = database(&store, 2, store.backup()).await.unwrap();
    let archive = archive(&store, &source).await.unwrap();
    let mut ledger = writer(&source).unwrap();
    fill(&mut source, 2).await.unwrap();
    let first = back_up(&mut source, "first", "Primary").await.unwrap();
    assert_eq!(first.based_on, "");
    if major_version().unwrap() < 17 {
        let reason = "has no incremental backups, and 17 is the first";
        assert!(first.full_reason.contains(reason), "{}", first.full_reason);
        return;
    }
    assert_eq!(first.full_reason, "the archive has no backup on the history of the database");

    let at_second = write(&mut source, &mut ledger).await.unwrap();
    let second = back_up(&mut source, "second", "PreferStandby").await.unwrap();
    assert_eq!((second.member.as_str(), second.full_reason.as_str()), ("db-2", ""));
    assert_eq!(second.based_on, first.key);
    assert!(second.bytes < first.bytes.map(|bytes| bytes / 4), "{:?} of {:?}", second.bytes, first.bytes);

    // Its successor bases one on a backup of the former timeline.
    write(&mut source, &mut ledger).await.unwrap();
    source.annotate(SWITCHOVER, "db-2").await.unwrap();
    source.until_failed_over().await.unwrap();
    source.until_complete().await.unwrap();
    rows(&mut source, &mut ledger, 10).await.unwrap();
    let third = back_up(&mut source, "third", "Primary").await.unwrap();
    assert_eq!((third.member.as_str(), third.full_reason.as_str()), ("db-2", ""));
    assert_eq!(third.based_on, second.key);

    let expected = rows(&mut source, &mut ledger, 5).await.unwrap();
    until_archived(&mut source, &archive).await.unwrap();
    let lsn = second.end_lsn.unwrap().to_string();
    for (target, expected) in [(json!({}), expected), (json!({"lsn": lsn}), at_second)] {
        let bootstrap = bootstrap(&store, &source, target.clone()).await.unwrap();
        let mut restored = recover(&store, json!({"size": 1, "bootstrap": bootstrap})).await.unwrap();
        restored.until_complete().await.unwrap();
        assert_eq!(count(&mut restored).await.unwrap(), expected, "{target}");
    }
    // Without the list of its files, nothing can be based on the last one.
    let objects = store.objects("").unwrap();
    let is_list = |path: &&PathBuf| path.ends_with(format!("{}/backup_manifest.zst", third.key));
    std::fs::remove_file(objects.keys().find(is_list).unwrap()).unwrap();
    let fourth = back_up(&mut source, "fourth", "Primary").await.unwrap();
    assert_eq!(fourth.based_on, "");
    assert!(fourth.full_reason.contains("it does not exist"), "{}", fourth.full_reason);
}
