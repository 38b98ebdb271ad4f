//! WAL in an object store.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use kube::{Api, ResourceExt};
use operator_core::conditions::find;
use postgres::{PostgresCluster, PostgresClusterStatus};
use postgres_archive::Archive;
use postgres_model::{
    archive::{ArchiveKey, ArchiveObject},
    timeline::{History, TimelineId},
    wal_file::{SegmentSize, WalSegment},
};
use postgres_processes::{Database, Kubelet, ObjectStore};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    backups::rows,
    ledger::{Application, Ledger, connect},
};

/// Duration of the Lease. These tests write much, and do not test how fast a failover is.
const LEASE_SECONDS: u32 = 15;

/// Creates a database that archives to a store.
pub(crate) async fn database(store: &ObjectStore, size: u8, backup: Value) -> Result<Database> {
    database_on(Kubelet::new().await?, store, size, backup).await
}

/// Creates a database that archives to a store, whose members this kubelet runs.
pub(crate) async fn database_on(
    kubelet: Kubelet,
    store: &ObjectStore,
    size: u8,
    backup: Value,
) -> Result<Database> {
    store.create_secret(&kubelet, None).await?;
    let spec = json!({"size": size, "backup": backup, "failover": {"leaseSeconds": LEASE_SECONDS}});
    let mut database = Database::on(kubelet, spec).await?;
    database.until_complete().await?;
    until_archiving(&mut database, "AsSpecified").await?;
    Ok(database)
}

/// Waits until the condition Archiving has a reason. Returns its message.
pub(crate) async fn until_archiving(database: &mut Database, reason: &str) -> Result<String> {
    let condition = |status: &PostgresClusterStatus| find(&status.conditions, "Archiving").cloned();
    let what = format!("Archiving to be {reason}");
    database.until(&what, |status| condition(status).is_some_and(|found| found.reason == reason)).await?;
    Ok(condition(&database.status).unwrap_or_else(|| panic!("no condition")).message)
}

/// Returns the archive of the database.
pub(crate) async fn archive(store: &ObjectStore, database: &Database) -> Result<Archive> {
    let api: Api<PostgresCluster> = database.kubelet.api();
    let cluster = api.get("db").await?;
    let system =
        cluster.status.as_ref().and_then(|status| status.system_id).context("no system identifier")?;
    store.archive("db", &cluster.uid().unwrap_or_default(), system)
}

/// Returns all segments that are archived.
async fn segments(archive: &Archive) -> Result<BTreeSet<WalSegment>> {
    Ok(archive.all_segments().await?.into_keys().collect())
}

/// Returns the segments of a history between the first and the last of a list that are not in it.
fn missing(segments: &BTreeSet<WalSegment>, history: &History) -> Vec<String> {
    let size = SegmentSize::DEFAULT;
    let start = |segment: &WalSegment| segment.start(size).unwrap().0;
    let own = || segments.iter().filter(|segment| timeline_of(history, start(segment)) == segment.timeline());
    let (Some(first), Some(last)) = (own().map(start).min(), own().map(start).max()) else {
        return Vec::new();
    };
    let starts = (first..=last).step_by(usize::try_from(size.bytes()).unwrap());
    let wanted = starts
        .map(|start| WalSegment::at(timeline_of(history, start), postgres_model::lsn::Lsn(start), size));
    wanted.filter(|segment| !segments.contains(segment)).map(|segment| segment.to_string()).collect()
}

/// Returns the timeline of the segment that starts at a position: the first one that does not fork
/// before the end of the segment.
fn timeline_of(history: &History, start: u64) -> TimelineId {
    let end = start + SegmentSize::DEFAULT.bytes();
    let switch = history.switches().find(|(_, fork)| end <= fork.0);
    switch.map_or_else(|| history.timeline(), |(timeline, _)| timeline)
}

/// Waits until everything up to the present position of the primary is archived, and nothing before
/// it is missing.
pub(crate) async fn until_archived(
    database: &mut Database,
    archive: &Archive,
) -> Result<BTreeSet<WalSegment>> {
    let current = current_segment(database).await?;
    connect(database.primary()?).await?.batch_execute("SELECT pg_switch_wal()").await?;
    let timeline = database.status.timeline_claimed.context("no timeline")?;
    let check = async |_: &[postgres_processes::Member]| {
        let found = segments(archive).await?;
        let is_there = found.iter().any(|segment| segment.to_string() >= current);
        let Some(history) = archive.history(timeline).await?.filter(|_| is_there) else {
            return Ok(Err(format!("{current} is missing")));
        };
        let missing = missing(&found, &history);
        Ok(if missing.is_empty() { Ok(found) } else { Err(format!("{missing:?}")) })
    };
    database.kubelet.until(&format!("{current} to be archived"), check).await
}

/// Starts to write rows.
pub(crate) fn write(database: &Database) -> Result<Application> {
    Ok(Application::start(writer(database)?, &database.kubelet.members))
}

/// Creates the ledger, whose writer may also switch WAL files.
pub(crate) fn writer(database: &Database) -> Result<Ledger> {
    let first = &database.kubelet.members[0];
    let ledger = Ledger::create(first)?;
    first.sql(
        "CREATE TABLE filler (t text); ALTER TABLE filler OWNER TO writer; \
         GRANT EXECUTE ON FUNCTION pg_switch_wal() TO writer",
    )?;
    Ok(ledger)
}

/// Stops the client, and checks that its rows are there.
pub(crate) async fn check(database: &mut Database, application: Application) -> Result<()> {
    let (ledger, pause) = application.stop().await?;
    let (acknowledged, lost) = ledger.check(database.primary()?).await?;
    println!("{acknowledged} rows acknowledged, {} lost, {pause:.1?} without writes", lost.len());
    assert_eq!(lost, [0; 0]);
    Ok(())
}

/// Fills some segments.
pub(crate) async fn fill(database: &mut Database, segments: u32) -> Result<()> {
    let client = connect(database.primary()?).await?;
    for _ in 0..segments {
        client
            .batch_execute(
                "INSERT INTO filler SELECT repeat(md5(i::text), 30) FROM generate_series(1, 5000) i",
            )
            .await?;
        client.batch_execute("SELECT pg_switch_wal()").await?;
    }
    Ok(())
}

/// Waits until the second member has this number of rows.
pub(crate) async fn until_replicated(database: &mut Database, rows: i64) -> Result<()> {
    until_replicated_on(database, 1, rows).await
}

async fn until_replicated_on(database: &mut Database, member: usize, rows: i64) -> Result<()> {
    let check = async |members: &[postgres_processes::Member]| {
        let client = connect(&members[member]).await?;
        let found: i64 = client.query_one("SELECT count(*) FROM ledger", &[]).await?.get(0);
        Ok(if found == rows { Ok(()) } else { Err(found) })
    };
    database.kubelet.until(&format!("{rows} rows on the standby"), check).await
}

/// Lets the second member, which does not run, replace the first one. What only that one has is lost,
/// because the standby cannot restore it from the archive.
pub(crate) async fn fail_over(database: &mut Database, store: &mut ObjectStore) -> Result<()> {
    database.change(json!({"failover": {"maxLagBytes": 10_u64 << 30}})).await?;
    store.stop()?;
    database.kubelet.members[0].kill()?;
    database.kubelet.members[1].start()?;
    database.until_failed_over().await?;
    anyhow::ensure!(database.status.primary.current == "db-2", "{:?}", database.status.primary);
    store.resume().await
}

/// Creates a database of two members. The small volume of the first one keeps little WAL for the other.
async fn small_database(store: &ObjectStore) -> Result<Database> {
    let mut database = Database::prepare_volumes(&[("db-1", 768)]).await?;
    store.create_secret(&database.kubelet, None).await?;
    let failover = json!({"leaseSeconds": LEASE_SECONDS});
    database.create(json!({"size": 2, "backup": store.backup(), "failover": failover})).await?;
    database.until_complete().await?;
    until_archiving(&mut database, "AsSpecified").await?;
    Ok(database)
}

/// Writes until only the archive has a segment of the first member.
async fn until_recycled(database: &mut Database, archive: &Archive, segment: &str) -> Result<()> {
    let pg_wal = database.kubelet.members[0].folder().join("volume/data/pg_wal");
    while pg_wal.join(segment).exists() {
        fill(database, 4).await?;
        until_archived(database, archive).await?;
        database.kubelet.members[0].sql("CHECKPOINT")?;
    }
    Ok(())
}

/// Returns the name of the segment to which the primary writes. It has a row, so a switch ends it.
async fn current_segment(database: &mut Database) -> Result<String> {
    let client = connect(database.primary()?).await?;
    client.batch_execute("INSERT INTO filler VALUES ('')").await?;
    Ok(client.query_one("SELECT pg_walfile_name(pg_current_wal_insert_lsn())", &[]).await?.get(0))
}

#[tokio::test]
async fn segments_of_all_timelines_are_archived_across_failovers() {
    let store = ObjectStore::start().await.unwrap();
    let mut database = database(&store, 3, store.backup()).await.unwrap();
    let archive = archive(&store, &database).await.unwrap();
    let application = write(&database).unwrap();
    for victim in 1..=2 {
        fill(&mut database, 3).await.unwrap();
        let primary = database.status.primary.current.clone();
        database.kubelet.member(&primary).unwrap().signal(Signal::KILL).unwrap();
        database.until_epoch(victim + 1).await.unwrap();
        let member = database.kubelet.member(&primary).unwrap();
        member.wait().await.unwrap();
        member.start().unwrap();
        database.until_complete().await.unwrap();
    }
    fill(&mut database, 2).await.unwrap();
    let found = until_archived(&mut database, &archive).await.unwrap();
    let timelines: BTreeSet<_> = found.iter().map(|segment| segment.timeline()).collect();
    assert_eq!(timelines.len(), 3, "{timelines:?}");
    check(&mut database, application).await.unwrap();
    until_archiving(&mut database, "AsSpecified").await.unwrap();
}

#[tokio::test]
async fn store_that_is_down_stops_no_writes_and_the_next_primary_archives_the_rest() {
    let mut store = ObjectStore::start().await.unwrap();
    let mut database = database(&store, 3, store.backup()).await.unwrap();
    let archive = archive(&store, &database).await.unwrap();
    let application = write(&database).unwrap();
    fill(&mut database, 1).await.unwrap();
    until_archived(&mut database, &archive).await.unwrap();
    store.stop().unwrap();
    fill(&mut database, 6).await.unwrap();
    let message = until_archiving(&mut database, "Failing").await.unwrap();
    assert!(message.contains("check the endpoint"), "{message}");
    // What only the standbys have is archived by the one that replaces the primary.
    database.kubelet.members[0].signal(Signal::KILL).unwrap();
    database.until_failed_over().await.unwrap();
    store.resume().await.unwrap();
    fill(&mut database, 1).await.unwrap();
    until_archived(&mut database, &archive).await.unwrap();
    until_archiving(&mut database, "AsSpecified").await.unwrap();
    database.kubelet.members[0].wait().await.unwrap();
    database.kubelet.members[0].start().unwrap();
    database.until_complete().await.unwrap();
    check(&mut database, application).await.unwrap();
}

#[tokio::test]
async fn corrected_secret_is_used_without_a_restart() {
    let store = ObjectStore::start().await.unwrap();
    let mut database = Database::prepare().await.unwrap();
    database.create(json!({"size": 1, "backup": store.backup()})).await.unwrap();
    let message = until_archiving(&mut database, "Failing").await.unwrap();
    assert!(
        message.contains("the key id of the Secret store") && message.contains("create the Secret"),
        "{message}"
    );
    // A missing Secret stops no database.
    database.until("a ready member", |status| status.ready_members == 1).await.unwrap();

    let wrong = "not-the-right-secret";
    store.create_secret(&database.kubelet, Some(wrong)).await.unwrap();
    database.remount().await.unwrap();
    let condition =
        |status: &PostgresClusterStatus| find(&status.conditions, "Archiving").unwrap().message.clone();
    database
        .until("the store to deny access", |status| condition(status).contains("denies access"))
        .await
        .unwrap();
    let log = database.kubelet.members[0].log();
    assert!(!log.contains(wrong) && !condition(&database.status).contains(wrong));

    store.create_secret(&database.kubelet, None).await.unwrap();
    database.remount().await.unwrap();
    until_archiving(&mut database, "AsSpecified").await.unwrap();
    let archive = archive(&store, &database).await.unwrap();
    writer(&database).unwrap();
    until_archived(&mut database, &archive).await.unwrap();
    database.until("the last segment", |status| !status.last_archived.is_empty()).await.unwrap();
}

#[tokio::test]
async fn object_of_somebody_else_is_a_conflict_and_is_not_overwritten() {
    let store = ObjectStore::start().await.unwrap();
    let mut database = database(&store, 1, store.backup()).await.unwrap();
    let archive = archive(&store, &database).await.unwrap();
    writer(&database).unwrap();
    fill(&mut database, 1).await.unwrap();
    until_archived(&mut database, &archive).await.unwrap();
    let name = current_segment(&mut database).await.unwrap();
    let api: Api<PostgresCluster> = database.kubelet.api();
    let uid = api.get("db").await.unwrap().uid().unwrap();
    let lineage = format!("db-{}", &uid[..8]).parse().unwrap();
    let object = ArchiveObject::Wal(name.parse().unwrap());
    let theirs = ArchiveKey { lineage, system: archive.system(), object };
    archive.store().put_new(&theirs, "theirs").await.unwrap();
    let file = store.folder(&theirs.to_string());
    fill(&mut database, 1).await.unwrap();
    let message = until_archiving(&mut database, "Conflict").await.unwrap();
    assert!(message.contains(&name) && message.contains("nothing was overwritten"), "{message}");
    assert_eq!(std::fs::read(&file).unwrap(), b"theirs");
    // A person moves it away.
    std::fs::remove_file(&file).unwrap();
    until_archived(&mut database, &archive).await.unwrap();
    until_archiving(&mut database, "AsSpecified").await.unwrap();
}

#[tokio::test]
async fn clusters_of_one_name_have_their_own_places() {
    let store = ObjectStore::start().await.unwrap();
    let mut first = database(&store, 1, store.backup()).await.unwrap();
    let archives = [archive(&store, &first).await.unwrap()];
    writer(&first).unwrap();
    fill(&mut first, 1).await.unwrap();
    until_archived(&mut first, &archives[0]).await.unwrap();
    let before = segments(&archives[0]).await.unwrap();
    drop(first);
    let mut second = database(&store, 1, store.backup()).await.unwrap();
    let archive = archive(&store, &second).await.unwrap();
    writer(&second).unwrap();
    until_archived(&mut second, &archive).await.unwrap();
    assert_eq!(segments(&archives[0]).await.unwrap(), before);
    let entries: Vec<_> = std::fs::read_dir(store.folder("")).unwrap().collect();
    assert_eq!(entries.len(), 2, "{entries:?}");
}

#[tokio::test]
async fn standby_that_fell_behind_catches_up_from_the_archive() {
    let store = ObjectStore::start().await.unwrap();
    let mut database = small_database(&store).await.unwrap();
    writer(&database).unwrap();
    database.kubelet.members[1].kill().unwrap();
    let archive = archive(&store, &database).await.unwrap();
    let first = current_segment(&mut database).await.unwrap();
    until_recycled(&mut database, &archive, &first).await.unwrap();
    database.kubelet.members[1].start().unwrap();
    database.until_complete().await.unwrap();
    let log = database.kubelet.members[1].log();
    assert!(log.contains(&format!("restored log file \"{first}\" from archive")), "{log}");
}

#[tokio::test]
async fn former_primary_rewinds_with_wal_that_only_the_archive_has() {
    let mut store = ObjectStore::start().await.unwrap();
    let mut database = small_database(&store).await.unwrap();
    let archive = archive(&store, &database).await.unwrap();
    let mut ledger = writer(&database).unwrap();
    let replicated = rows(&mut database, &mut ledger, 10).await.unwrap();
    until_replicated(&mut database, replicated).await.unwrap();
    database.kubelet.members[1].kill().unwrap();
    // pg_rewind begins at the last checkpoint before the fork.
    let fork = current_segment(&mut database).await.unwrap();
    until_recycled(&mut database, &archive, &fork).await.unwrap();
    fail_over(&mut database, &mut store).await.unwrap();
    database.kubelet.members[0].start().unwrap();
    database.until_complete().await.unwrap();
    let log = database.kubelet.members[0].log();
    assert!(log.contains("removing WAL that the primary lacks"), "{log}");
    assert!(!log.contains("cloning the primary"), "{log}");
    let expected = rows(&mut database, &mut ledger, 5).await.unwrap();
    until_replicated_on(&mut database, 0, expected).await.unwrap();
}

#[tokio::test]
async fn missing_bucket_stops_no_writes_and_is_used_when_it_exists() {
    let store = ObjectStore::start().await.unwrap();
    let mut database = Database::prepare().await.unwrap();
    store.create_secret(&database.kubelet, None).await.unwrap();
    let mut backup = store.backup();
    backup["objectStore"]["url"] = json!("s3://missing/test");
    database.create(json!({"size": 1, "backup": backup})).await.unwrap();
    let message = until_archiving(&mut database, "Failing").await.unwrap();
    assert!(message.contains("the bucket does not exist") && message.contains("create it"), "{message}");
    database.until("a ready member", |status| status.ready_members == 1).await.unwrap();
    writer(&database).unwrap();
    fill(&mut database, 1).await.unwrap();

    store.create_bucket("missing").unwrap();
    until_archiving(&mut database, "AsSpecified").await.unwrap();
    database.until("the last segment", |status| !status.last_archived.is_empty()).await.unwrap();
}

#[tokio::test]
async fn full_store_stops_no_writes_and_gets_the_rest_when_it_has_space() {
    let store = ObjectStore::with_space(1).await.unwrap();
    let mut database = database(&store, 1, store.backup()).await.unwrap();
    let archive = archive(&store, &database).await.unwrap();
    writer(&database).unwrap();
    // Compressed, a segment has more than a twelfth of that.
    fill(&mut database, 12).await.unwrap();
    let message = until_archiving(&mut database, "Failing").await.unwrap();
    assert!(message.contains("No space left") && message.contains("the free space"), "{message}");
    fill(&mut database, 1).await.unwrap();
    database.until("a ready member", |status| status.ready_members == 1).await.unwrap();

    store.resize(256).unwrap();
    until_archived(&mut database, &archive).await.unwrap();
    until_archiving(&mut database, "AsSpecified").await.unwrap();
}
