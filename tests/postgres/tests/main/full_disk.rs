//! Volumes that get full.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use operator_core::conditions::find;
use postgres::PostgresClusterStatus;
use postgres_processes::{Database, Member};
use rustix::process::Signal;
use serde_json::json;
use tokio_postgres::{Client, error::SqlState};

use crate::ledger::{Application, Ledger, connect};

/// Size of a small volume, and of one that has grown, in MiB.
const SMALL: u64 = 320;
const LARGE: u64 = 1024;
/// How long nothing must happen. A server that is started again and again starts twice meanwhile.
const QUIET: Duration = Duration::from_secs(6);
/// How long it may take to fill a volume.
const PATIENCE: Duration = Duration::from_mins(3);
/// Writes 20 MiB, and as much WAL.
const FILL: &str = "INSERT INTO filler SELECT repeat('x', 1000) FROM generate_series(1, 20000)";

/// Creates the ledger, and a table that is filled later.
fn create_tables(database: &Database) -> Result<Ledger> {
    let first = database.kubelet.members.first().context("no member")?;
    let ledger = Ledger::create(first)?;
    first.sql("CREATE TABLE filler (content text)")?;
    first.sql("ALTER TABLE filler OWNER TO writer")?;
    Ok(ledger)
}

/// Writes once. The rows wait for no standby.
async fn write(member: &Member) -> Result<()> {
    let client = connect(member).await?;
    client.batch_execute(&format!("SET synchronous_commit = local; {FILL}")).await?;
    Ok(())
}

/// Writes until the member does not accept more.
async fn fill(member: &Member) {
    while write(member).await.is_ok() {}
}

/// Returns the reason of a condition.
fn reason<'a>(status: &'a PostgresClusterStatus, type_: &str) -> &'a str {
    find(&status.conditions, type_).map_or("", |condition| condition.reason.as_str())
}

/// Returns the message of a condition.
fn message<'a>(status: &'a PostgresClusterStatus, type_: &str) -> &'a str {
    find(&status.conditions, type_).map_or("", |condition| condition.message.as_str())
}

async fn until_reason(database: &mut Database, type_: &str, expected: &str) {
    let what = format!("{type_} to be {expected}");
    database.until(&what, |status| reason(status, type_) == expected).await.unwrap();
}

/// Writes to the primary until the status is so.
async fn fill_until(database: &mut Database, what: &str, is_so: impl Fn(&PostgresClusterStatus) -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so(&database.status) {
        assert!(Instant::now() < end, "waited for: {what}\n{}", database.kubelet.logs());
        if let Ok(primary) = database.primary() {
            // It fails on a primary that stops.
            let _ = write(primary).await;
        }
        database.look().await.unwrap();
    }
}

/// Connects to the primary.
async fn until_connected(database: &mut Database) -> Client {
    let end = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < end, "no primary answers: {}", database.kubelet.logs());
        if let Ok(primary) = database.primary()
            && let Ok(client) = connect(primary).await
        {
            return client;
        }
        database.look().await.unwrap();
    }
}

/// Returns how often PostgreSQL was started.
fn starts(member: &Member) -> usize {
    member.log().matches("starting as ").count()
}

/// Returns what PostgreSQL prints when it finds no room for WAL, and ends.
fn panics(member: &Member) -> usize {
    member.log().matches("PANIC").count()
}

fn grow(member: &Member) {
    member.volume.as_ref().unwrap().resize(LARGE).unwrap();
}

/// Looks at a cluster in which nothing must happen. Returns how often its members have started.
async fn look_on(database: &mut Database) -> Vec<usize> {
    let end = Instant::now() + QUIET;
    while Instant::now() < end {
        database.look().await.unwrap();
    }
    database.kubelet.members.iter().map(starts).collect()
}

async fn assert_no_row_is_lost(database: &mut Database, ledger: &Ledger, what: &str) {
    let (acknowledged, lost) = ledger.check(database.primary().unwrap()).await.unwrap();
    println!("{what}: {acknowledged} rows acknowledged, {} lost", lost.len());
    assert_eq!(lost, [0; 0], "{}", database.kubelet.logs());
}

#[tokio::test]
async fn full_primary_hands_over_and_returns_when_its_volume_has_grown() {
    let mut database = Database::with_volumes(3, &[("db-1", SMALL)]).await.unwrap();
    database.until_complete().await.unwrap();
    let ledger = create_tables(&database).unwrap();
    let ballast =
        |database: &Database| database.kubelet.members[0].volume.as_ref().unwrap().size_of("ballast");
    assert_eq!(ballast(&database), Some(24 << 20));
    let application = Application::start(ledger, &database.kubelet.members);
    fill(&database.kubelet.members[0]).await;
    until_reason(&mut database, "StorageHealthy", "Full").await;
    database.until_failed_over().await.unwrap();
    assert_ne!(database.status.primary.current, "db-1");
    let explanation = message(&database.status, "StorageHealthy");
    assert!(explanation.starts_with("db-1: the volume is full"), "{explanation}");
    until_reason(&mut database, "Available", "AsSpecified").await;
    assert_eq!(reason(&database.status, "Ready"), "Full");
    let starts_before = look_on(&mut database).await;
    assert_eq!(starts_before[0], 1, "it does not start again: {}", database.kubelet.logs());
    assert_eq!(panics(&database.kubelet.members[0]), 0, "it stopped before it crashed");
    assert_eq!(ballast(&database), Some(0));

    grow(&database.kubelet.members[0]);
    database.until_complete().await.unwrap();
    let explanation = message(&database.status, "StorageHealthy");
    assert!(!explanation.contains("db-1"), "{explanation}");
    assert_eq!((database.status.primary.epoch, ballast(&database)), (2, Some(24 << 20)));
    let (ledger, pause) = application.stop().await.unwrap();
    println!("a full primary: {pause:.1?} without writes");
    assert_no_row_is_lost(&mut database, &ledger, "a full primary").await;
}

#[tokio::test]
async fn members_that_are_all_full_wait_and_do_not_take_turns() {
    let sizes = [("db-1", SMALL), ("db-2", SMALL), ("db-3", SMALL)];
    let mut database = Database::with_volumes(3, &sizes).await.unwrap();
    database.until_complete().await.unwrap();
    let ledger = create_tables(&database).unwrap();
    let application = Application::start(ledger, &database.kubelet.members);
    let none = "nobody can take over";
    fill_until(&mut database, none, |status| message(status, "Available").contains(" are full")).await;
    // Each member had its turn at most once.
    let epoch = database.status.primary.epoch;
    println!("three full members: {epoch} epochs, {}", message(&database.status, "Available"));
    assert!(epoch <= 4, "epoch {epoch}: {}", database.kubelet.logs());
    let before = look_on(&mut database).await;
    assert_eq!(look_on(&mut database).await, before, "{}", database.kubelet.logs());
    assert_eq!(database.status.primary.epoch, epoch);
    until_reason(&mut database, "StorageHealthy", "Full").await;

    database.kubelet.members.iter().for_each(grow);
    database.until_complete().await.unwrap();
    let (ledger, _) = application.stop().await.unwrap();
    assert_no_row_is_lost(&mut database, &ledger, "three full members").await;
}

#[tokio::test]
async fn single_full_member_goes_on_when_its_volume_has_grown() {
    let mut database = Database::with_volumes(1, &[("db-1", SMALL)]).await.unwrap();
    database.until_complete().await.unwrap();
    let mut ledger = create_tables(&database).unwrap();
    let client = connect(&database.kubelet.members[0]).await.unwrap();
    assert!(ledger.write(&client).await);
    fill(&database.kubelet.members[0]).await;
    until_reason(&mut database, "Available", "DiskFull").await;
    assert_eq!(look_on(&mut database).await, [1], "{}", database.kubelet.logs());
    // The instance remembers it, and does not start PostgreSQL in the space of its ballast.
    database.kubelet.members[0].kill().unwrap();
    database.kubelet.members[0].start().unwrap();
    until_reason(&mut database, "Available", "DiskFull").await;
    assert_eq!(look_on(&mut database).await, [1], "{}", database.kubelet.logs());
    grow(&database.kubelet.members[0]);
    database.until_complete().await.unwrap();
    let client = connect(&database.kubelet.members[0]).await.unwrap();
    assert!(ledger.write(&client).await);
    assert_no_row_is_lost(&mut database, &ledger, "a single full member").await;
}

#[tokio::test]
async fn server_that_crashed_on_a_full_volume_is_not_started_again_and_again() {
    let mut database = Database::with_volumes(1, &[("db-1", SMALL)]).await.unwrap();
    database.until_complete().await.unwrap();
    let mut ledger = create_tables(&database).unwrap();
    let client = connect(&database.kubelet.members[0]).await.unwrap();
    assert!(ledger.write(&client).await);
    // Nobody stops the server in time.
    database.kubelet.members[0].signal(Signal::STOP).unwrap();
    let member = &database.kubelet.members[0];
    fill(member).await;
    // A statement without room for its rows fails. WAL without room ends the server.
    while panics(member) == 0 {
        let _ = member.sql("SELECT pg_logical_emit_message(false, 'test', ''), pg_switch_wal()");
    }
    database.kubelet.members[0].signal(Signal::CONT).unwrap();
    until_reason(&mut database, "Available", "DiskFull").await;
    let before = look_on(&mut database).await;
    assert!(before[0] <= 2, "{before:?} starts: {}", database.kubelet.logs());
    assert_eq!(look_on(&mut database).await, before);
    grow(&database.kubelet.members[0]);
    database.until_complete().await.unwrap();
    let client = connect(&database.kubelet.members[0]).await.unwrap();
    assert!(ledger.write(&client).await);
    assert_no_row_is_lost(&mut database, &ledger, "a crash on a full volume").await;
}

#[tokio::test]
async fn full_standby_holds_up_nobody_and_returns() {
    let mut database = Database::with_volumes(3, &[("db-3", SMALL)]).await.unwrap();
    database.until_complete().await.unwrap();
    let ledger = create_tables(&database).unwrap();
    let application = Application::start(ledger, &database.kubelet.members);
    fill_until(&mut database, "full", |status| reason(status, "StorageHealthy") == "Full").await;
    let before = look_on(&mut database).await;
    assert_eq!(before, [1, 1, 1], "{}", database.kubelet.logs());
    assert_eq!(reason(&database.status, "Available"), "AsSpecified");
    grow(&database.kubelet.members[2]);
    database.until_complete().await.unwrap();
    assert_eq!((database.status.primary.epoch, panics(&database.kubelet.members[2])), (1, 0));
    let (ledger, pause) = application.stop().await.unwrap();
    println!("a full standby: {pause:.1?} without writes");
    assert_no_row_is_lost(&mut database, &ledger, "a full standby").await;
}

#[tokio::test]
async fn commits_wait_for_a_full_standby_if_that_is_required() {
    let mut database = Database::with_volumes(2, &[("db-2", SMALL)]).await.unwrap();
    database.until_complete().await.unwrap();
    let mut ledger = create_tables(&database).unwrap();
    database.change(json!({"synchronous": {"number": 1, "durability": "required"}})).await.unwrap();
    database
        .until("synchronous", |status| status.sync.number == 1 && status.reigns.len() == 1)
        .await
        .unwrap();
    fill_until(&mut database, "full", |status| reason(status, "StorageHealthy") == "Full").await;
    let client = until_connected(&mut database).await;
    assert!(!ledger.write(&client).await, "no standby has the row");
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    let client = until_connected(&mut database).await;
    let waiting: i64 = client.query_one(waiting, &[]).await.unwrap().get(0);
    assert!(waiting > 0, "{}", database.kubelet.logs());
    assert_eq!(database.status.sync.number, 1);
    grow(&database.kubelet.members[1]);
    database.until_complete().await.unwrap();
    let client = connect(&database.kubelet.members[0]).await.unwrap();
    assert!(ledger.write(&client).await);
}

#[tokio::test]
async fn copy_that_fills_the_volume_is_removed_and_tried_again_when_it_has_grown() {
    let mut database = Database::with_volumes(1, &[("db-2", SMALL)]).await.unwrap();
    database.until_complete().await.unwrap();
    create_tables(&database).unwrap();
    for _ in 0..20 {
        write(&database.kubelet.members[0]).await.unwrap();
    }
    database.change(json!({"size": 2})).await.unwrap();
    until_reason(&mut database, "StorageHealthy", "Full").await;
    let explanation = message(&database.status, "StorageHealthy");
    assert!(explanation.starts_with("db-2: the volume is too small for a copy"), "{explanation}");
    look_on(&mut database).await;
    let second = &database.kubelet.members[1];
    // A primary that loses its Lease under load refuses connections for seconds. Such attempts copy nothing.
    let copies = |member: &Member| {
        let (log, refused) = (member.log(), "pg_basebackup: error: connection to server");
        log.matches("cloning the primary").count() - log.matches(refused).count()
    };
    assert_eq!(copies(second), 1, "{}", second.log());
    assert!(!second.folder().join("volume/data.partial").exists());
    grow(second);
    database.until_complete().await.unwrap();
    assert_eq!(copies(&database.kubelet.members[1]), 2);
}

#[tokio::test]
async fn query_that_fills_the_volume_fails_and_stops_nothing() {
    let mut database = Database::with_volumes(1, &[("db-1", SMALL)]).await.unwrap();
    database.until_complete().await.unwrap();
    create_tables(&database).unwrap();
    let client = connect(&database.kubelet.members[0]).await.unwrap();
    // Its temporary files would be larger than the volume.
    let sort = "SELECT count(*) FROM (SELECT repeat('x', 1000) || number FROM generate_series(1, 1000000) \
                AS number ORDER BY 1) AS sorted";
    let error = client.batch_execute(sort).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::DISK_FULL), "{error}");
    look_on(&mut database).await;
    assert_eq!(starts(&database.kubelet.members[0]), 1, "{}", database.kubelet.logs());
    assert_eq!(reason(&database.status, "Ready"), "AsSpecified", "{}", database.kubelet.logs());
    assert!(!database.kubelet.members[0].log().contains("stopping PostgreSQL"));
}
