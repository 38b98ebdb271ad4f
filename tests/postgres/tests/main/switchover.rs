//! Planned changes: a switchover on request, and the replacement of all Pods, while a client writes.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt, api::ListParams};
use postgres::{Phase, PostgresClusterStatus, RESTART, SWITCHOVER};
use postgres_processes::{Database, Member};
use serde_json::json;

use crate::{
    ledger::{Application, Ledger},
    life::database,
};

/// How long the Lease of a written database is valid: so long that a busy machine hands over meanwhile.
///
/// A shorter time without writes shows that nobody waited until the Lease expired.
const LEASE: Duration = Duration::from_secs(30);

/// Creates a database with three members, and a client that writes to it.
pub(crate) async fn with_writes() -> Result<(Database, Application)> {
    written(3).await
}

/// Creates a database, and a client that writes to it.
async fn written(size: u32) -> Result<(Database, Application)> {
    let spec = json!({"size": size, "failover": {"leaseSeconds": LEASE.as_secs()}});
    let mut database = Database::with(spec).await?;
    database.until_complete().await?;
    let ledger = Ledger::create(&database.kubelet.members[0])?;
    let application = Application::start(ledger, &database.kubelet.members);
    Ok((database, application))
}

/// Stops the client. Checks that its rows are there, and that no member had to remove any.
pub(crate) async fn check(database: &mut Database, application: Application, what: &str) -> Result<()> {
    let (ledger, pause) = application.stop().await?;
    let (acknowledged, lost) = ledger.check(database.primary()?).await?;
    println!("{what}: {acknowledged} rows acknowledged, {} lost, {pause:.1?} without writes", lost.len());
    assert_eq!(lost, [0; 0]);
    assert!(pause < LEASE, "{pause:?} without writes:\n{}", database.kubelet.logs());
    let logs = database.kubelet.logs();
    assert!(!logs.contains("removing WAL"), "the former primary had sent everything:\n{logs}");
    Ok(())
}

/// UIDs of Pods, by their names.
pub(crate) type Pods = BTreeMap<String, Option<String>>;

pub(crate) async fn pods(api: &Api<Pod>) -> Result<Pods> {
    let pods = api.list(&ListParams::default()).await?;
    Ok(pods.into_iter().map(|pod| (pod.name_any(), pod.uid())).collect())
}

/// Waits until all Pods have been replaced. Returns their names in the order of their replacement.
async fn until_replaced(database: &mut Database, before: &Pods) -> Result<Vec<String>> {
    let api = database.kubelet.api::<Pod>();
    let mut order = Vec::new();
    let check = async |_: &[Member]| {
        let present = pods(&api).await?;
        let away = before.len() - present.len();
        ensure!(away <= 1, "{away} Pods are away at the same time");
        let new = present.iter().filter(|(name, uid)| before.get(*name) != Some(*uid));
        let new: Vec<_> = new.map(|(name, _)| name.clone()).filter(|name| !order.contains(name)).collect();
        order.extend(new);
        Ok(if order.len() == before.len() { Ok(order.clone()) } else { Err(order.clone()) })
    };
    database.kubelet.until("all Pods to be replaced", check).await
}

#[tokio::test]
async fn switchover_on_request_loses_no_row() {
    let (mut database, application) = with_writes().await.unwrap();
    for (request, epoch) in [("db-3", 2), ("any", 3)] {
        let before = database.status.primary.current.clone();
        database.annotate(SWITCHOVER, request).await.unwrap();
        let is_done = |status: &PostgresClusterStatus| {
            let primary = &status.primary;
            (primary.epoch, primary.switchover.as_str()) == (epoch, "") && !primary.current.is_empty()
        };
        database.until("switched over", is_done).await.unwrap();
        let current = &database.status.primary.current;
        let is_requested = current != &before && (request == "any" || current == request);
        assert!(is_requested, "{before} to {request}: {current} leads:\n{}", database.kubelet.logs());
        assert_eq!(database.annotation(SWITCHOVER).await.unwrap(), None);
        database.until_complete().await.unwrap();
    }
    check(&mut database, application, "two switchovers").await.unwrap();
}

#[tokio::test]
async fn switchover_without_synchronous_replication_loses_no_row() {
    let (mut database, application) = written(2).await.unwrap();
    database.annotate(SWITCHOVER, "db-2").await.unwrap();
    database.until_failed_over().await.unwrap();
    database.until_complete().await.unwrap();
    assert_eq!(database.status.primary.current, "db-2");
    check(&mut database, application, "a switchover of two members").await.unwrap();
}

#[tokio::test]
async fn switchover_to_an_unknown_member_waits_and_is_explained() {
    let mut database = database().await.unwrap();
    database.annotate(SWITCHOVER, "db-9").await.unwrap();
    let is_explained = |status: &PostgresClusterStatus| {
        status.conditions.iter().any(|condition| {
            condition.type_ == "Available"
                && condition.message
                    == "db-1 takes writes; the switchover to db-9 waits until that member streams and has caught up, as db-2, db-3 has"
        })
    };
    database.until("explained", is_explained).await.unwrap();
    assert_eq!((database.status.primary.epoch, database.status.phase), (1, Phase::Running));
}

#[tokio::test]
async fn new_resources_replace_all_pods_and_lose_no_row() {
    let (mut database, application) = with_writes().await.unwrap();
    let before = pods(&database.kubelet.api()).await.unwrap();
    database.change(json!({"resources": {"requests": {"cpu": "50m"}}})).await.unwrap();
    assert_eq!(until_replaced(&mut database, &before).await.unwrap(), ["db-3", "db-2", "db-1"]);
    database.until_complete().await.unwrap();
    assert_eq!(database.status.primary.epoch, 2, "one switchover");
    check(&mut database, application, "a rollout").await.unwrap();
}

#[tokio::test]
async fn single_member_restarts_with_its_rows() {
    let (mut database, application) = written(1).await.unwrap();
    let before = pods(&database.kubelet.api()).await.unwrap();
    database.annotate(RESTART, "now").await.unwrap();
    assert_eq!(until_replaced(&mut database, &before).await.unwrap(), ["db-1"]);
    database.until_complete().await.unwrap();
    check(&mut database, application, "a restart").await.unwrap();
}
