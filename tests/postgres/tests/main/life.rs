//! A database that is created, loses its primary in several ways, and loses no row.

use anyhow::Result;
use postgres_model::report::InstanceState;
use postgres_processes::Database;
use rustix::process::Signal;

use crate::ledger::{Ledger, connect};

/// Creates a database with three members that stream.
pub(crate) async fn database() -> Result<Database> {
    let mut database = Database::new(cluster::shared().await?, 3).await?;
    for member in &mut database.members {
        member.start()?;
    }
    database.until_complete().await?;
    Ok(database)
}

#[tokio::test]
async fn three_members_stream_and_stop_in_order() {
    let mut database = database().await.unwrap();
    let mut ledger = Ledger::create(&database.members[0]).unwrap();
    let client = connect(&database.members[0]).await.unwrap();
    for _ in 0..100 {
        assert!(ledger.write(&client).await);
    }
    drop(client);
    assert_eq!(database.state.current.as_deref(), Some("db-1"));
    let reports = database.operate().await.unwrap();
    let states: Vec<_> = reports.iter().map(|report| report.as_ref().unwrap().state).collect();
    assert_eq!(states, [InstanceState::Primary, InstanceState::Standby, InstanceState::Standby]);
    for member in database.members.iter_mut().rev() {
        member.signal(Signal::TERM).unwrap();
        assert!(member.wait().await.unwrap().success());
    }
}

/// Operates until a failover is complete, and returns the acknowledged rows that the primary lacks.
async fn until_failed_over(database: &mut Database, ledger: &Ledger) -> Result<Vec<i64>> {
    let is_over = |database: &Database| database.state.epoch > 1 && database.state.current.is_some();
    database.until("failed over", |database, _| is_over(database)).await?;
    let (acknowledged, lost) = ledger.check(database.primary()?).await?;
    assert!(acknowledged > 0);
    Ok(lost)
}

/// Returns the log of the first member.
fn log(database: &Database) -> String {
    let member = database.members.first().map(|member| member.folder().join("log"));
    member.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default()
}

#[tokio::test]
async fn killed_primary_is_replaced_and_returns() {
    let mut database = database().await.unwrap();
    let mut ledger = Ledger::create(&database.members[0]).unwrap();
    let client = connect(&database.members[0]).await.unwrap();
    for _ in 0..100 {
        assert!(ledger.write(&client).await);
    }
    database.members[0].kill().unwrap();
    assert_eq!(until_failed_over(&mut database, &ledger).await.unwrap(), [0; 0]);
    database.members[0].start().unwrap();
    database.until_complete().await.unwrap();
    let client = connect(database.primary().unwrap()).await.unwrap();
    assert!(ledger.write(&client).await);
}

#[tokio::test]
async fn isolated_primary_is_fenced_before_it_is_replaced() {
    let mut database = database().await.unwrap();
    let mut ledger = Ledger::create(&database.members[0]).unwrap();
    let client = connect(&database.members[0]).await.unwrap();
    assert!(ledger.write(&client).await);
    database.members[0].api.cut();
    // Its session writes as long as it can.
    while ledger.write(&client).await {}
    assert!(log(&database).contains("the Lease has expired"), "{}", log(&database));
    assert_eq!(until_failed_over(&mut database, &ledger).await.unwrap(), [0; 0]);
    database.members[0].api.heal();
    database.until_complete().await.unwrap();
}

#[tokio::test]
async fn hung_primary_loses_its_lease() {
    let mut database = database().await.unwrap();
    let mut ledger = Ledger::create(&database.members[0]).unwrap();
    let client = connect(&database.members[0]).await.unwrap();
    assert!(ledger.write(&client).await);
    database.members[0].signal_postgresql(Signal::STOP).unwrap();
    assert_eq!(until_failed_over(&mut database, &ledger).await.unwrap(), [0; 0]);
    // SIGKILL ends processes that are stopped too.
    assert!(log(&database).contains("killing all of its processes"), "{}", log(&database));
    database.until_complete().await.unwrap();
}

#[tokio::test]
async fn frozen_pod_is_replaced_and_does_not_write_when_it_thaws() {
    let mut database = database().await.unwrap();
    let mut ledger = Ledger::create(&database.members[0]).unwrap();
    let client = connect(&database.members[0]).await.unwrap();
    assert!(ledger.write(&client).await);
    database.members[0].signal_postgresql(Signal::STOP).unwrap();
    database.members[0].signal(Signal::STOP).unwrap();
    assert_eq!(until_failed_over(&mut database, &ledger).await.unwrap(), [0; 0]);
    database.members[0].signal_postgresql(Signal::CONT).unwrap();
    database.members[0].signal(Signal::CONT).unwrap();
    assert!(!ledger.write(&client).await, "its standbys follow another member");
    database.until_complete().await.unwrap();
}

#[tokio::test]
async fn primary_that_does_not_start_is_replaced() {
    let mut database = database().await.unwrap();
    let mut ledger = Ledger::create(&database.members[0]).unwrap();
    let client = connect(&database.members[0]).await.unwrap();
    assert!(ledger.write(&client).await);
    let key = database.members[0].folder().join("certificates/server/tls.key");
    let content = std::fs::read(&key).unwrap();
    std::fs::write(&key, "no key").unwrap();
    database.members[0].signal_postgresql(Signal::KILL).unwrap();
    assert_eq!(until_failed_over(&mut database, &ledger).await.unwrap(), [0; 0]);
    let starts = log(&database).matches("starting as the primary").count();
    assert!(starts < 6, "{starts} starts without a pause: {}", log(&database));
    assert!(database.state.current.as_deref() != Some("db-1"));
    std::fs::write(&key, content).unwrap();
    database.until_complete().await.unwrap();
}
