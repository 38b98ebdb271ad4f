//! Members whose power fails in the middle of something.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Result;
use cluster::wait::eventually;
use postgres_processes::{Database, Member};
use rustix::process::Signal;
use serde_json::json;

use crate::{
    ledger::{Ledger, connect},
    life::database,
};

const PATIENCE: Duration = Duration::from_secs(30);

/// Kills a member as soon as a file or directory of its volume exists.
async fn kill_when_there_is(member: &mut Member, name: &str) -> Result<()> {
    let path = member.folder().join("volume").join(name);
    eventually(&path.display().to_string(), PATIENCE, async || Ok(Path::exists(&path))).await?;
    member.kill()
}

#[tokio::test]
async fn interrupted_creation_and_clone_begin_again() {
    let mut database = Database::new(1).await.unwrap();
    database.until_members("started", |members| !members.is_empty()).await.unwrap();
    let first = &mut database.kubelet.members[0];
    kill_when_there_is(first, "data.partial").await.unwrap();
    assert!(!first.folder().join("volume/data").exists());
    first.start().unwrap();
    database.until_complete().await.unwrap();
    // A copy takes long enough to be interrupted.
    let filler = "CREATE TABLE filler AS SELECT repeat('x', 1000) FROM generate_series(1, 100000)";
    database.kubelet.members[0].sql(&format!("SET synchronous_commit = local; {filler}")).unwrap();
    database.change(json!({"size": 2})).await.unwrap();
    database.until_members("started", |members| members.len() == 2).await.unwrap();
    let second = &mut database.kubelet.members[1];
    kill_when_there_is(second, "data.partial").await.unwrap();
    assert!(!second.folder().join("volume/data").exists());
    second.start().unwrap();
    database.until_complete().await.unwrap();
    let log = database.kubelet.members[1].log();
    assert_eq!(log.matches("cloning the primary").count(), 2, "{log}");
}

#[tokio::test]
async fn primary_that_is_killed_during_its_promotion_loses_nothing() {
    let mut database = database().await.unwrap();
    let mut ledger = Ledger::create(&database.kubelet.members[0]).unwrap();
    let client = connect(&database.kubelet.members[0]).await.unwrap();
    for _ in 0..20 {
        assert!(ledger.write(&client).await);
    }
    database.kubelet.members[0].kill().unwrap();
    let promoting = |members: &[Member]| {
        let mut others = members.iter().skip(1);
        others.find(|member| member.log().contains("promoting")).map(|member| member.name.clone())
    };
    database.until_members("promoting", |members| promoting(members).is_some()).await.unwrap();
    let target = promoting(&database.kubelet.members).unwrap();
    database.kubelet.member(&target).unwrap().kill().unwrap();
    database.kubelet.members[0].start().unwrap();
    database.kubelet.member(&target).unwrap().start().unwrap();
    database.until_complete().await.unwrap();
    let (acknowledged, lost) = ledger.check(database.primary().unwrap()).await.unwrap();
    assert_eq!((acknowledged, lost), (20, vec![]));
}

#[tokio::test]
async fn primary_that_stops_hands_over_before_its_lease_expires() {
    // So long that a busy machine hands over meanwhile.
    let lease = Duration::from_secs(30);
    let spec = json!({"size": 3, "failover": {"leaseSeconds": lease.as_secs()}});
    let mut database = Database::with(spec).await.unwrap();
    database.until_complete().await.unwrap();
    let mut ledger = Ledger::create(&database.kubelet.members[0]).unwrap();
    let began = Instant::now();
    database.kubelet.members[0].signal(Signal::TERM).unwrap();
    database.kubelet.members[0].wait().await.unwrap();
    database.until_failed_over().await.unwrap();
    let client = connect(database.primary().unwrap()).await.unwrap();
    assert!(ledger.write(&client).await);
    let unavailable = began.elapsed();
    println!("handed over after {:.1} s", unavailable.as_secs_f32());
    assert!(unavailable < lease, "{unavailable:?}\n{}", database.kubelet.logs());
}
