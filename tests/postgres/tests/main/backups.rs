//! Base backups in an object store.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use operator_core::conditions::find;
use postgres::{PostgresBackup, PostgresBackupPhase as Phase, PostgresBackupStatus, PostgresClusterStatus};
use postgres_archive::Archive;
use postgres_processes::{Database, Member, ObjectStore, give_to_postgres, program_folder, run_as_postgres};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use crate::{
    archive::{archive, check, database, fill, until_archived, write, writer},
    ledger::{Ledger, connect},
};

/// Creates a PostgresBackup.
pub(crate) async fn create(database: &Database, name: &str, target: &str) -> Result<()> {
    let backup = json!({
        "apiVersion": "lukeb0nd.com/v1", "kind": "PostgresBackup", "metadata": {"name": name},
        "spec": {"clusterRef": {"name": "db"}, "target": target, "immediateCheckpoint": true},
    });
    let backup: PostgresBackup = serde_json::from_value(backup)?;
    database.kubelet.api().create(&PostParams::default(), &backup).await?;
    Ok(())
}

/// Creates the PostgresBackup `slow` of the primary. Its checkpoint is spread over minutes, so it does not
/// end.
pub(crate) async fn create_slow(database: &mut Database) -> Result<()> {
    fill(database, 2).await?;
    let backup = json!({
        "apiVersion": "lukeb0nd.com/v1", "kind": "PostgresBackup", "metadata": {"name": "slow"},
        "spec": {"clusterRef": {"name": "db"}, "target": "Primary"},
    });
    let backup: PostgresBackup = serde_json::from_value(backup)?;
    database.kubelet.api().create(&PostParams::default(), &backup).await?;
    until(database, "slow", |status| status.phase == Phase::Running).await?;
    Ok(())
}

/// Waits until a condition on a PostgresBackup holds.
pub(crate) async fn until(
    database: &mut Database,
    name: &str,
    is_so: impl Fn(&PostgresBackupStatus) -> bool,
) -> Result<PostgresBackupStatus> {
    let api: Api<PostgresBackup> = database.kubelet.api();
    let check = async |_: &[Member]| {
        let status = api.get(name).await?.status.unwrap_or_default();
        Ok(if is_so(&status) { Ok(status) } else { Err(status) })
    };
    database.kubelet.until(&format!("the backup {name}"), check).await
}

pub(crate) async fn until_complete(database: &mut Database, name: &str) -> Result<PostgresBackupStatus> {
    let status = until(database, name, |status| status.phase.is_final()).await?;
    ensure!(status.phase == Phase::Completed, "{status:?}");
    Ok(status)
}

/// Restores a backup into a folder, and all WAL after it, as a person would do it. Returns the folder.
async fn restore(archive: &Archive, key: &str) -> Result<tempfile::TempDir> {
    let folder = tempfile::Builder::new().prefix("restored-").tempdir()?;
    let (data, wal) = (folder.path().join("data"), folder.path().join("wal"));
    for path in [&data, &wal] {
        fs::create_dir(path)?;
    }
    let manifest = archive.manifest(&key.parse()?).await?;
    let first = manifest.backup.begin_wal;
    let mut tar = Vec::new();
    archive.read_backup(manifest)?.into_async_read().read_to_end(&mut tar).await?;
    fs::write(folder.path().join("data.tar"), tar)?;
    let unpacked =
        Command::new("tar").arg("-xf").arg(folder.path().join("data.tar")).arg("-C").arg(&data).status()?;
    ensure!(unpacked.success(), "cannot unpack the backup");
    for segment in archive.all_segments().await?.into_keys().filter(|segment| *segment >= first) {
        let name = segment.to_string();
        let _ = archive.restore_wal(name.parse()?, &wal.join(name)).await?;
    }
    for timeline in archive.histories().await?.into_keys() {
        let name = format!("{:08X}.history", timeline.get());
        let _ = archive.restore_wal(name.parse()?, &wal.join(name)).await?;
    }
    let settings = format!(
        "restore_command = 'cp {}/%f %p'\nrecovery_target_timeline = 'latest'\narchive_mode = off\n\
         listen_addresses = ''\nmax_wal_senders = 16\nunix_socket_directories = '{}'\nport = 5432\n",
        wal.display(),
        folder.path().display(),
    );
    fs::write(data.join("postgresql.conf"), settings)?;
    fs::write(data.join("pg_hba.conf"), "local all all trust\n")?;
    fs::write(data.join("pg_ident.conf"), "")?;
    fs::write(data.join("recovery.signal"), "")?;
    // A backup of a standby has one, which would keep the server in recovery.
    if data.join("standby.signal").exists() {
        fs::remove_file(data.join("standby.signal"))?;
    }
    fs::set_permissions(data.join("postgresql.auto.conf"), fs::Permissions::from_mode(0o600))?;
    fs::write(data.join("postgresql.auto.conf"), "")?;
    fs::set_permissions(&data, fs::Permissions::from_mode(0o700))?;
    give_to_postgres(folder.path())?;
    Ok(folder)
}

/// Recovers a restored folder to the end of the WAL, and returns the number of rows in the ledger.
async fn recover(folder: &Path) -> Result<i64> {
    let data = folder.join("data").display().to_string();
    let program = |name: &str| Ok::<_, anyhow::Error>(program_folder()?.join(name).display().to_string());
    let log = folder.join("log").display().to_string();
    let start = ["-D", &data, "-w", "-t", "60", "-l", &log, "start"];
    if let Err(error) = run_as_postgres(folder, &program("pg_ctl")?, &start) {
        return Err(error.context(fs::read_to_string(&log).unwrap_or_default()));
    }
    let host = folder.display().to_string();
    let promoted = "SELECT pg_is_in_recovery()";
    let count = "SELECT count(*) FROM ledger";
    let query = |sql: &str| {
        let args = ["-h", &host, "-U", "postgres", "-d", "postgres", "-Atc", sql];
        run_as_postgres(folder, &program("psql")?, &args)
    };
    let end = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while query(promoted)?.trim() != "f" {
        ensure!(std::time::Instant::now() < end, "the recovery does not end");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let rows = query(count)?.trim().parse().context("no number")?;
    run_as_postgres(folder, &program("pg_ctl")?, &["-D", &data, "-m", "immediate", "stop"])?;
    Ok(rows)
}

/// Writes rows, and returns their number.
pub(crate) async fn rows(database: &mut Database, ledger: &mut Ledger, number: i64) -> Result<i64> {
    let client = connect(database.primary()?).await?;
    for _ in 0..number {
        ensure!(ledger.write(&client).await, "a row was not acknowledged");
    }
    Ok(client.query_one("SELECT count(*) FROM ledger", &[]).await?.get(0))
}

#[tokio::test]
async fn backup_of_an_idle_standby_recovers_with_all_rows() {
    let store = ObjectStore::start().await.unwrap();
    let mut database = database(&store, 2, store.backup()).await.unwrap();
    let archive = archive(&store, &database).await.unwrap();
    let mut ledger = writer(&database).unwrap();
    let expected = rows(&mut database, &mut ledger, 20).await.unwrap();
    create(&database, "first", "PreferStandby").await.unwrap();
    let status = until_complete(&mut database, "first").await.unwrap();
    assert_eq!(status.member, "db-2", "the standby");
    assert!(status.bytes > Some(0) && status.begin_lsn < status.end_lsn, "{status:?}");
    // Nothing more is needed: the backup is restored at once.
    let restored = restore(&archive, &status.key).await.unwrap();
    assert_eq!(recover(restored.path()).await.unwrap(), expected);

    // With later WAL, it recovers later rows.
    let expected = rows(&mut database, &mut ledger, 10).await.unwrap();
    until_archived(&mut database, &archive).await.unwrap();
    let restored = restore(&archive, &status.key).await.unwrap();
    assert_eq!(recover(restored.path()).await.unwrap(), expected);
    let last = |status: &PostgresClusterStatus| status.last_backup.as_ref().map(|last| last.name.clone());
    database.until("lastBackup", |status| last(status).as_deref() == Some("first")).await.unwrap();
    database.until("firstRecoverable", |status| status.first_recoverable.is_some()).await.unwrap();
    let recent = find(&database.status.conditions, "BackupRecent").unwrap();
    assert_eq!((recent.status.as_str(), recent.reason.as_str()), ("True", "AsSpecified"));
}

#[tokio::test]
async fn backup_of_a_busy_primary_recovers_across_a_failover() {
    let store = ObjectStore::start().await.unwrap();
    // Two would replicate asynchronously, and lose rows.
    let mut database = database(&store, 3, store.backup()).await.unwrap();
    let archive = archive(&store, &database).await.unwrap();
    let application = write(&database).unwrap();
    create(&database, "first", "Primary").await.unwrap();
    let status = until_complete(&mut database, "first").await.unwrap();
    assert_eq!(status.member, "db-1");
    fill(&mut database, 1).await.unwrap();
    database.kubelet.members[0].signal(Signal::KILL).unwrap();
    database.until_failed_over().await.unwrap();
    database.kubelet.members[0].wait().await.unwrap();
    database.kubelet.members[0].start().unwrap();
    database.until_complete().await.unwrap();
    check(&mut database, application).await.unwrap();
    let client = connect(database.primary().unwrap()).await.unwrap();
    let expected: i64 = client.query_one("SELECT count(*) FROM ledger", &[]).await.unwrap().get(0);
    until_archived(&mut database, &archive).await.unwrap();
    let restored = restore(&archive, &status.key).await.unwrap();
    assert_eq!(recover(restored.path()).await.unwrap(), expected);
}

/// Removes the history files of backups that are archived, as PostgreSQL does at the end of another one.
/// Returns how many.
fn remove_histories(pg_wal: &Path) -> Result<usize> {
    let mut removed = 0;
    for entry in fs::read_dir(pg_wal.join("archive_status"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some(history) = name.strip_suffix(".done").filter(|name| name.ends_with(".backup")) {
            removed += usize::from(fs::remove_file(pg_wal.join(history)).is_ok());
        }
    }
    Ok(removed)
}

#[tokio::test]
async fn backup_finds_its_end_although_the_clone_of_another_member_removes_its_history() {
    let store = ObjectStore::start().await.unwrap();
    let mut database = database(&store, 1, store.backup()).await.unwrap();
    create(&database, "first", "Primary").await.unwrap();
    let api: Api<PostgresBackup> = database.kubelet.api();
    let pg_wal = database.kubelet.members[0].folder().join("volume/data/pg_wal");
    let mut removed = 0;
    let ended = async |_: &[Member]| {
        removed += remove_histories(&pg_wal)?;
        let status = api.get("first").await?.status.unwrap_or_default();
        Ok(if status.phase.is_final() { Ok(status) } else { Err(status) })
    };
    let status = database.kubelet.until("the end of the backup", ended).await.unwrap();
    assert_eq!((status.phase, removed), (Phase::Completed, 1), "{status:?}");
}

#[tokio::test]
async fn backup_of_a_killed_member_fails_and_the_next_one_succeeds() {
    let store = ObjectStore::start().await.unwrap();
    let mut database = database(&store, 2, store.backup()).await.unwrap();
    writer(&database).unwrap();
    create_slow(&mut database).await.unwrap();
    create(&database, "second", "PreferStandby").await.unwrap();
    let status = until(&mut database, "second", |status| !status.error.is_empty()).await.unwrap();
    assert_eq!(status.error, "waiting for the end of the PostgresBackup slow");
    database.kubelet.members[0].signal(Signal::KILL).unwrap();
    database.kubelet.members[0].wait().await.unwrap();
    database.kubelet.members[0].start().unwrap();
    let status = until(&mut database, "slow", |status| status.phase.is_final()).await.unwrap();
    assert_eq!(status.phase, Phase::Failed);
    assert!(status.error.contains("started again"), "{}", status.error);
    until_complete(&mut database, "second").await.unwrap();
}

#[tokio::test]
async fn schedule_makes_backups_and_retention_removes_them() {
    let store = ObjectStore::start().await.unwrap();
    let mut backup = store.backup();
    backup["retention"] = json!({"minimum": 1});
    let mut database = database(&store, 1, backup).await.unwrap();
    let archive = archive(&store, &database).await.unwrap();
    writer(&database).unwrap();
    create(&database, "first", "Primary").await.unwrap();
    let first = until_complete(&mut database, "first").await.unwrap();
    fill(&mut database, 1).await.unwrap();
    create(&database, "second", "Primary").await.unwrap();
    let second = until_complete(&mut database, "second").await.unwrap();
    let check = async |_: &[Member]| {
        let keys: Vec<_> =
            archive.backups().await?.complete.iter().map(|backup| backup.id.to_string()).collect();
        let segments = archive.all_segments().await?;
        let first_wal = segments.keys().next().map(ToString::to_string);
        let is_pruned = keys == [second.key.clone()] && first_wal.as_ref() == Some(&second.begin_wal);
        Ok(if is_pruned { Ok(()) } else { Err((keys, first_wal)) })
    };
    database.kubelet.until("the first backup to go", check).await.unwrap();
    let api: Api<PostgresBackup> = database.kubelet.api();
    assert_eq!(api.get("first").await.unwrap().status.unwrap().key, first.key, "nobody deletes it");

    // A schedule that has missed two days makes one backup.
    let schedules = json!([{"name": "night", "cron": "0 3 * * *", "timeZone": "Europe/Berlin"}]);
    database.change(json!({"backup": {"schedules": schedules}})).await.unwrap();
    database.until("the schedule", |status| status.schedules.len() == 1).await.unwrap();
    let mut missed: Value = serde_json::to_value(&database.status.schedules).unwrap();
    let long_ago = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(50);
    missed[0]["lastTime"] = json!(long_ago.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    let patch = Patch::Merge(json!({"status": {"schedules": missed}}));
    let clusters: Api<postgres::PostgresCluster> = database.kubelet.api();
    let created = async |_: &[Member]| {
        let list = api.list(&ListParams::default().labels("lukeb0nd.com/schedule=night")).await?;
        if list.items.is_empty() {
            // The controller may repair the status before it reads the moment in it.
            clusters.patch_status("db", &PatchParams::default(), &patch).await?;
        }
        Ok(if list.items.is_empty() { Err("none") } else { Ok(list.items) })
    };
    let found = database.kubelet.until("a backup of the schedule", created).await.unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].name_any().starts_with("db-night-20"), "{}", found[0].name_any());

    let schedules = json!([{"name": "night", "cron": "0 3 * * *", "timeZone": "Europe/Atlantis"}]);
    database.change(json!({"backup": {"schedules": schedules}})).await.unwrap();
    let reason =
        |status: &PostgresClusterStatus| find(&status.conditions, "BackupRecent").map(|it| it.reason.clone());
    database
        .until("the words of the parser", |status| reason(status).as_deref() == Some("InvalidSchedule"))
        .await
        .unwrap();
}
