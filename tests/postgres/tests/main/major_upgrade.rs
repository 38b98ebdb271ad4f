//! Upgrades to another major version: from that of the distribution's packages to the one that the tests run with.

use std::{fs, path::Path, time::Duration};

use anyhow::{Result, ensure};
use cluster::wait::eventually;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{ResourceExt, api::ListParams};
use operator_core::conditions::find;
use postgres::{PostgresClusterStatus, SWITCHOVER};
use postgres_processes::{Database, Member, ObjectStore, distributed_version, major_version};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    archive::{archive, until_archived, writer},
    backups,
    ledger::{Application, Ledger, connect},
    recovery::{bootstrap, count},
};

/// How long a step of an upgrade may take.
const PATIENCE: Duration = Duration::from_mins(1);
/// Time between two looks for a file that exists for a short time.
const FAST: Duration = Duration::from_millis(2);

/// Returns the version before an upgrade, and the one after it.
fn versions() -> Result<(u16, u16)> {
    let (from, to) = (distributed_version()?, major_version()?);
    ensure!(from < to, "an upgrade needs a newer PostgreSQL than that of the distribution: {to} is not");
    Ok((from, to))
}

/// Creates a namespace for a database whose Pods run the versions of their images.
async fn prepare() -> Result<Database> {
    let mut database = Database::prepare().await?;
    database.kubelet.obeys_images = true;
    Ok(database)
}

/// Creates a database of the former version.
async fn former(size: u8) -> Result<Database> {
    let mut database = prepare().await?;
    let parameters = json!({"wal_level": "logical"});
    database.create(json!({"size": size, "version": versions()?.0, "parameters": parameters})).await?;
    database.until_complete().await?;
    database.primary()?.sql("SELECT pg_create_logical_replication_slot('changes', 'pgoutput')")?;
    Ok(database)
}

/// Asks for an upgrade.
async fn ask(database: &Database) -> Result<()> {
    let spec = json!({"version": versions()?.1, "updates": {"majorVersion": "Upgrade"}});
    database.change(spec).await
}

/// Waits until the database runs with the new version.
async fn until_upgraded(database: &mut Database) -> Result<()> {
    let version = format!("{}.", versions()?.1);
    let is_upgraded = |status: &PostgresClusterStatus| {
        status.current_version.starts_with(&version)
            && status.major_upgrade.as_ref().is_some_and(|upgrade| upgrade.done)
    };
    database.until("the data to be upgraded", is_upgraded).await?;
    database.until_complete().await
}

/// Returns the major version that a member says it runs.
fn version_of(member: &Member) -> Result<u16> {
    let number: u32 = member.query("SHOW server_version_num")?.parse()?;
    Ok((number / 10_000).try_into()?)
}

fn condition(status: &PostgresClusterStatus, name: &str) -> Option<(String, String)> {
    let found = find(&status.conditions, name)?;
    Some((found.reason.clone(), found.message.clone()))
}

#[tokio::test]
async fn upgrade_keeps_all_rows_and_replaces_the_standbys() {
    let (from, to) = versions().unwrap();
    let mut database = former(3).await.unwrap();
    assert_eq!(version_of(database.primary().unwrap()).unwrap(), from);
    let ledger = Ledger::create(database.primary().unwrap()).unwrap();
    let application = Application::start(ledger, &database.kubelet.members);
    let before = database.status.clone();
    ask(&database).await.unwrap();
    until_upgraded(&mut database).await.unwrap();

    let (ledger, pause) = application.stop().await.unwrap();
    let (acknowledged, lost) = ledger.check(database.primary().unwrap()).await.unwrap();
    println!("{acknowledged} rows acknowledged, {} lost, {pause:.1?} without writes", lost.len());
    assert!(acknowledged > 0 && lost.is_empty(), "{lost:?}");
    let status = database.status.clone();
    assert_eq!(status.primary.current, before.primary.current);
    assert_ne!(status.system_id, before.system_id);
    let names: Vec<_> = status.instances.iter().map(|instance| instance.name.as_str()).collect();
    assert_eq!(names, ["db-1", "db-4", "db-5"]);
    for name in names {
        assert_eq!(version_of(database.kubelet.member(name).unwrap()).unwrap(), to, "{name}");
    }
    let volumes = database.kubelet.api::<PersistentVolumeClaim>();
    let volumes = volumes.list(&ListParams::default()).await.unwrap();
    let volumes: Vec<_> = volumes.iter().map(ResourceExt::name_any).collect();
    assert_eq!(volumes, ["db-1", "db-2", "db-3", "db-4", "db-5"], "the former standbys are a way back");
    let has_statistics = |members: &[Member]| {
        members.iter().any(|member| {
            let count = "SELECT count(*) FROM pg_stats WHERE tablename = 'ledger'";
            member.name == "db-1" && member.query(count).is_ok_and(|count| count == "1")
        })
    };
    database.until_members("statistics", has_statistics).await.unwrap();

    // The application's role, its password, and a planned change work as before.
    database.annotate(SWITCHOVER, "db-4").await.unwrap();
    database.until("db-4 to lead", |status| status.primary.current == "db-4").await.unwrap();
    database.until_complete().await.unwrap();
    assert_eq!(ledger.check(database.primary().unwrap()).await.unwrap().1, [0; 0]);
}

#[tokio::test]
async fn former_version_goes_on_if_the_data_cannot_be_upgraded() {
    let (from, to) = versions().unwrap();
    let mut database = former(2).await.unwrap();
    let member = database.primary().unwrap();
    member.sql("CREATE TABLE refused (function regproc)").unwrap();
    member.sql("INSERT INTO refused VALUES ('now')").unwrap();
    ask(&database).await.unwrap();
    let has_failed = |status: &PostgresClusterStatus| {
        condition(status, "Upgrading").is_some_and(|(reason, _)| reason == "MajorUpgradeFailed")
    };
    database.until("the upgrade to fail", has_failed).await.unwrap();
    let (_, message) = condition(&database.status, "Upgrading").unwrap();
    for words in ["public.refused.function", &format!("set spec.version to {from}")] {
        assert!(message.contains(words), "{message}");
    }
    let works = |status: &PostgresClusterStatus| {
        condition(status, "Available").is_some_and(|(reason, _)| reason == "AsSpecified")
            && status.ready_members == 2
    };
    database.until("the former version to run", works).await.unwrap();
    let member = database.primary().unwrap();
    assert_eq!(version_of(member).unwrap(), from);
    assert_eq!(member.query("SELECT count(*) FROM refused").unwrap(), "1");
    member.sql("DROP TABLE refused").unwrap();
    database.change(json!({"version": from})).await.unwrap();
    database.until("the failure to be forgotten", |status| status.major_upgrade.is_none()).await.unwrap();
    database.until_complete().await.unwrap();
    ask(&database).await.unwrap();
    until_upgraded(&mut database).await.unwrap();
    assert_eq!(version_of(database.primary().unwrap()).unwrap(), to);
}

/// Waits until the volume of the only member is in some state, kills the member, and starts it again.
async fn kill_at(database: &mut Database, what: &str, is_so: impl Fn(&Path) -> bool) -> Result<()> {
    let volume = database.kubelet.member("db-1")?.folder().join("volume");
    let deadline = Instant::now() + PATIENCE;
    while !is_so(&volume) {
        ensure!(Instant::now() < deadline, "waited for {what}:\n{}", database.kubelet.logs());
        sleep(FAST).await;
    }
    let member = database.kubelet.member("db-1")?;
    member.kill()?;
    member.start()
}

/// Returns whether `pg_upgrade` has dumped the roles of the former version, which runs meanwhile.
fn dumps(volume: &Path) -> bool {
    let outputs =
        fs::read_dir(volume.join("data.partial/pg_upgrade_output.d")).into_iter().flatten().flatten();
    let mut dumps = outputs.map(|output| output.path().join("dump/pg_upgrade_dump_globals.sql"));
    dumps.any(|dump| dump.exists())
}

#[tokio::test]
async fn upgrade_survives_a_kill_at_each_step() {
    let mut database = former(1).await.unwrap();
    let mut ledger = Ledger::create(database.primary().unwrap()).unwrap();
    let client = connect(database.primary().unwrap()).await.unwrap();
    for _ in 0..100 {
        assert!(ledger.write(&client).await);
    }
    drop(client);
    ask(&database).await.unwrap();
    database
        .until("the upgrade to start", |status| {
            status.major_upgrade.as_ref().is_some_and(|upgrade| upgrade.started)
        })
        .await
        .unwrap();
    kill_at(&mut database, "initdb", |volume| volume.join("data.partial").exists()).await.unwrap();
    kill_at(&mut database, "the former version to run", dumps).await.unwrap();
    let links = |volume: &Path| volume.join("data/global/pg_control.old").exists();
    kill_at(&mut database, "the files to be linked", links).await.unwrap();
    until_upgraded(&mut database).await.unwrap();
    assert!(database.kubelet.logs().contains("recovering them with the former version"));
    let (acknowledged, lost) = ledger.check(database.primary().unwrap()).await.unwrap();
    assert_eq!((acknowledged, lost), (100, Vec::new()));
    let volume = database.primary().unwrap().folder().join("volume");
    for rest in ["data.partial", "data.former", "upgrade"] {
        assert!(!volume.join(rest).exists(), "{rest} is left");
    }
    let state: Value = serde_json::from_slice(&fs::read(volume.join("instance.json")).unwrap()).unwrap();
    assert_eq!(state.get("upgraded"), None);
}

#[tokio::test]
async fn upgrade_that_has_not_started_is_cancelled() {
    let (from, _) = versions().unwrap();
    let mut database = former(1).await.unwrap();
    let before = database.status.clone();
    ask(&database).await.unwrap();
    // The kubelet does not look, so that the Pod of the upgrade never runs.
    let api = database.kubelet.api::<postgres::PostgresCluster>();
    eventually("the upgrade to begin", PATIENCE, async || {
        let status = api.get("db").await?.status.unwrap_or_default();
        Ok(status.major_upgrade.clone().ok_or(status))
    })
    .await
    .unwrap();
    database.change(json!({"version": from})).await.unwrap();
    database.until("the upgrade to be forgotten", |status| status.major_upgrade.is_none()).await.unwrap();
    database.until_complete().await.unwrap();
    assert_eq!(version_of(database.primary().unwrap()).unwrap(), from);
    assert_eq!(
        (database.status.system_id, database.status.primary.epoch),
        (before.system_id, before.primary.epoch)
    );
}

#[tokio::test]
async fn backup_from_before_the_upgrade_recovers_with_the_former_version() {
    let (from, to) = versions().unwrap();
    let store = ObjectStore::start().await.unwrap();
    let mut database = prepare().await.unwrap();
    store.create_secret(&database.kubelet, None).await.unwrap();
    let spec = json!({"size": 1, "version": from, "backup": store.backup()});
    database.create(spec).await.unwrap();
    database.until_complete().await.unwrap();
    let mut ledger = writer(&database).unwrap();
    let expected = backups::rows(&mut database, &mut ledger, 20).await.unwrap();
    backups::create(&database, "before", "Primary").await.unwrap();
    backups::until_complete(&mut database, "before").await.unwrap();
    let archive = archive(&store, &database).await.unwrap();
    until_archived(&mut database, &archive).await.unwrap();
    // The way back: the archive of the data before the upgrade.
    let mut way_back = bootstrap(&store, &database, json!({})).await.unwrap();
    way_back["recovery"]["source"]["systemID"] = json!(database.status.system_id);

    ask(&database).await.unwrap();
    until_upgraded(&mut database).await.unwrap();
    backups::rows(&mut database, &mut ledger, 5).await.unwrap();
    let has_backup = |status: &PostgresClusterStatus| {
        let upgrade = status.major_upgrade.as_ref();
        upgrade.is_some_and(|upgrade| upgrade.first_backup.starts_with(&format!("db-upgraded-{to}-")))
    };
    database.until("the first backup", has_backup).await.unwrap();
    let first = database.status.major_upgrade.clone().unwrap().first_backup;
    backups::until_complete(&mut database, &first).await.unwrap();
    database
        .until("the last backup to be that of the upgraded data", |status| {
            status.last_backup.as_ref().is_some_and(|backup| backup.name == first)
        })
        .await
        .unwrap();
    let backups = database.kubelet.api::<postgres::PostgresBackup>();
    assert!(backups.get_opt("before").await.unwrap().is_some(), "it is a way back");

    let mut recovered = prepare().await.unwrap();
    store.create_secret(&recovered.kubelet, None).await.unwrap();
    recovered.create(json!({"size": 1, "version": from, "bootstrap": way_back})).await.unwrap();
    recovered.until_complete().await.unwrap();
    assert_eq!(version_of(recovered.primary().unwrap()).unwrap(), from);
    assert_eq!(count(&mut recovered).await.unwrap(), expected);
}
