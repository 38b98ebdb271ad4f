//! Members that a person fences: their PostgreSQL stops, and a fenced primary stays the primary.

use std::collections::BTreeSet;

use anyhow::Result;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams},
};
use postgres::{FENCE, PostgresClusterStatus};
use postgres_processes::{Database, Member};

use crate::{
    ledger::{Ledger, connect},
    life::database,
};

/// Rows before each fence.
const ROWS: usize = 20;

/// A database with a client that has written rows.
async fn with_rows() -> Result<(Database, Ledger)> {
    let database = database().await?;
    let mut ledger = Ledger::create(&database.kubelet.members[0])?;
    write(&database.kubelet.members[0], &mut ledger).await?;
    Ok((database, ledger))
}

/// Writes rows to a member, all of which must be acknowledged.
async fn write(member: &Member, ledger: &mut Ledger) -> Result<()> {
    let client = connect(member).await?;
    for _ in 0..ROWS {
        assert!(ledger.write(&client).await);
    }
    Ok(())
}

/// Returns whether Available is false because of a fence.
fn is_fenced(status: &PostgresClusterStatus) -> bool {
    status.conditions.iter().any(|condition| {
        (condition.type_.as_str(), condition.status.as_str(), condition.reason.as_str())
            == ("Available", "False", "Fenced")
    })
}

/// Waits until these members have stopped PostgreSQL because of the fence.
async fn until_stopped(database: &mut Database, members: &[&str]) -> Result<()> {
    let has_stopped = |member: &Member| member.log().contains("PostgreSQL has ended");
    let names = |all: &[Member]| {
        all.iter().filter(|member| has_stopped(member)).map(|member| member.name.clone()).collect()
    };
    let expected: BTreeSet<String> = members.iter().map(|name| (*name).to_owned()).collect();
    database.until_members("stopped", |all| expected == names(all)).await
}

/// Lets all members go on, and checks that nobody was promoted and that all rows are there.
async fn check_unfenced(mut database: Database, mut ledger: Ledger) -> Result<()> {
    database.annotate(FENCE, None).await?;
    database.until_complete().await?;
    let primary = &database.status.primary;
    assert_eq!((primary.epoch, primary.current.as_str(), primary.fenced), (1, "db-1", false));
    write(&database.kubelet.members[0], &mut ledger).await?;
    assert_eq!(ledger.check(&database.kubelet.members[0]).await?, (2 * ROWS, vec![]));
    let logs = database.kubelet.logs();
    assert!(!logs.contains("promoting") && !logs.contains("removing WAL"), "{logs}");
    let events = database.kubelet.api::<Event>().list(&ListParams::default()).await?;
    let reasons: BTreeSet<_> = events.into_iter().filter_map(|event| event.reason).collect();
    assert!(reasons.contains("PrimaryFenced") && !reasons.contains("FailoverStarted"), "{reasons:?}");
    Ok(())
}

#[tokio::test]
async fn fenced_primary_takes_no_writes_and_stays_the_primary() {
    let (mut database, ledger) = with_rows().await.unwrap();
    database.annotate(FENCE, "db-1").await.unwrap();
    until_stopped(&mut database, &["db-1"]).await.unwrap();
    database.until("fenced", is_fenced).await.unwrap();
    assert!(database.status.primary.fenced);
    assert!(connect(&database.kubelet.members[0]).await.is_err());
    // Not even a lost Pod makes another member the primary.
    let pods = database.kubelet.api::<Pod>();
    let uid = pods.get("db-1").await.unwrap().uid();
    pods.delete("db-1", &DeleteParams::default()).await.unwrap();
    let is_new = async |_: &[Member]| {
        let pod = pods.get_opt("db-1").await?;
        Ok(if pod.is_some_and(|pod| pod.uid() != uid) { Ok(()) } else { Err("the Pod is the same") })
    };
    database.kubelet.until("another Pod", is_new).await.unwrap();
    database.until("fenced", |status| is_fenced(status) && status.instances.len() == 3).await.unwrap();
    assert_eq!(database.status.sync.number, 1, "nothing was acknowledged that has to be lowered");
    check_unfenced(database, ledger).await.unwrap();
}

#[tokio::test]
async fn all_members_can_be_fenced() {
    let (mut database, ledger) = with_rows().await.unwrap();
    database.annotate(FENCE, "*").await.unwrap();
    until_stopped(&mut database, &["db-1", "db-2", "db-3"]).await.unwrap();
    database.until("fenced", is_fenced).await.unwrap();
    check_unfenced(database, ledger).await.unwrap();
}

#[tokio::test]
async fn fenced_standby_holds_up_no_commit() {
    let (mut database, mut ledger) = with_rows().await.unwrap();
    database.annotate(FENCE, "db-3, db-9").await.unwrap();
    until_stopped(&mut database, &["db-3"]).await.unwrap();
    write(&database.kubelet.members[0], &mut ledger).await.unwrap();
    let message =
        "db-1 takes writes; fenced: db-3; the annotation lukeb0nd.com/fence lists db-9, which is no member";
    let is_explained = |status: &PostgresClusterStatus| {
        status.conditions.iter().any(|condition| condition.status == "True" && condition.message == message)
    };
    database.until("explained", is_explained).await.unwrap();
    // Commits no longer wait for it, and it is no candidate.
    database.annotate(FENCE, "db-2, db-3").await.unwrap();
    database.until("lowered", |status| status.reigns.len() == 1 && status.sync.number == 0).await.unwrap();
    write(&database.kubelet.members[0], &mut ledger).await.unwrap();
    database.annotate(FENCE, None).await.unwrap();
    database.until_complete().await.unwrap();
    assert_eq!(database.status.primary.epoch, 1);
    assert_eq!(ledger.check(&database.kubelet.members[2]).await.unwrap(), (3 * ROWS, vec![]));
}
