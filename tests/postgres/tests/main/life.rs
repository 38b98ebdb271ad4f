//! A database that is created, loses its primary in several ways, and loses no row.

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use postgres::{PostgresClusterStatus, ROLE_LABEL, Role};
use postgres_processes::{Database, Member};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::ledger::{Ledger, connect};

/// Creates a database with three members that stream.
pub(crate) async fn database() -> Result<Database> {
    let mut database = Database::new(3).await?;
    database.until_complete().await?;
    Ok(database)
}

#[tokio::test]
async fn three_members_stream_and_stop_in_order() {
    let mut database = database().await.unwrap();
    let mut ledger = Ledger::create(&database.kubelet.members[0]).unwrap();
    let client = connect(&database.kubelet.members[0]).await.unwrap();
    for _ in 0..100 {
        assert!(ledger.write(&client).await);
    }
    drop(client);
    // A standby is admitted once it streams, which can be after all members are ready.
    let both =
        |status: &PostgresClusterStatus| status.sync.number == 1 && status.sync.members == ["db-2", "db-3"];
    database.until("a commit to wait for one of both standbys", both).await.unwrap();
    let roles: Vec<_> = database.status.instances.iter().map(|instance| instance.role).collect();
    assert_eq!(roles, [Role::Primary, Role::Replica, Role::Replica]);
    for member in database.kubelet.members.iter_mut().rev() {
        member.signal(Signal::TERM).unwrap();
        assert!(member.wait().await.unwrap().success());
    }
}

/// Waits until a failover is complete, and returns the acknowledged rows that the primary lacks.
async fn until_failed_over(database: &mut Database, ledger: &Ledger) -> Result<Vec<i64>> {
    database.until_failed_over().await?;
    let (acknowledged, lost) = ledger.check(database.primary()?).await?;
    assert!(acknowledged > 0);
    Ok(lost)
}

#[tokio::test]
async fn killed_primary_is_replaced_and_returns() {
    let mut database = database().await.unwrap();
    let mut ledger = Ledger::create(&database.kubelet.members[0]).unwrap();
    let client = connect(&database.kubelet.members[0]).await.unwrap();
    for _ in 0..100 {
        assert!(ledger.write(&client).await);
    }
    database.kubelet.members[0].kill().unwrap();
    assert_eq!(until_failed_over(&mut database, &ledger).await.unwrap(), [0; 0]);
    database.kubelet.members[0].start().unwrap();
    database.until_complete().await.unwrap();
    let client = connect(database.primary().unwrap()).await.unwrap();
    assert!(ledger.write(&client).await);
}

#[tokio::test]
async fn isolated_primary_is_fenced_before_it_is_replaced() {
    let mut database = database().await.unwrap();
    let mut ledger = Ledger::create(&database.kubelet.members[0]).unwrap();
    let client = connect(&database.kubelet.members[0]).await.unwrap();
    assert!(ledger.write(&client).await);
    database.kubelet.members[0].api.cut();
    // Its session writes as long as it can.
    while ledger.write(&client).await {}
    assert!(
        database.kubelet.members[0].log().contains("the Lease has expired"),
        "{}",
        database.kubelet.members[0].log()
    );
    assert_eq!(until_failed_over(&mut database, &ledger).await.unwrap(), [0; 0]);
    database.kubelet.members[0].api.heal();
    database.until_complete().await.unwrap();
}

#[tokio::test]
async fn hung_primary_loses_its_lease() {
    let mut database = database().await.unwrap();
    let mut ledger = Ledger::create(&database.kubelet.members[0]).unwrap();
    let client = connect(&database.kubelet.members[0]).await.unwrap();
    assert!(ledger.write(&client).await);
    database.kubelet.members[0].signal_postgresql(Signal::STOP).unwrap();
    assert_eq!(until_failed_over(&mut database, &ledger).await.unwrap(), [0; 0]);
    // SIGKILL ends processes that are stopped too.
    assert!(
        database.kubelet.members[0].log().contains("killing all of its processes"),
        "{}",
        database.kubelet.members[0].log()
    );
    database.until_complete().await.unwrap();
}

#[tokio::test]
async fn frozen_pod_is_replaced_and_does_not_write_when_it_thaws() {
    let mut database = database().await.unwrap();
    let mut ledger = Ledger::create(&database.kubelet.members[0]).unwrap();
    let client = connect(&database.kubelet.members[0]).await.unwrap();
    assert!(ledger.write(&client).await);
    database.kubelet.members[0].signal_all(Signal::STOP).unwrap();
    assert_eq!(until_failed_over(&mut database, &ledger).await.unwrap(), [0; 0]);
    database.kubelet.members[0].signal_all(Signal::CONT).unwrap();
    assert!(!ledger.write(&client).await, "its standbys follow another member");
    database.until_complete().await.unwrap();
}

/// Its last report is that of a primary without standbys, and the Lease expires after these count as away.
#[tokio::test]
async fn primary_that_freezes_after_a_crash_is_replaced() {
    let spec = json!({"size": 3, "failover": {"leaseSeconds": 15}});
    let mut database = Database::with(spec).await.unwrap();
    database.until_complete().await.unwrap();
    let mut ledger = Ledger::create(&database.kubelet.members[0]).unwrap();
    let client = connect(&database.kubelet.members[0]).await.unwrap();
    assert!(ledger.write(&client).await);
    for standby in &database.kubelet.members[1..] {
        standby.signal_postgresql(Signal::STOP).unwrap();
    }
    database.kubelet.members[0].signal_postgresql(Signal::KILL).unwrap();
    let runs_alone = async |members: &[Member]| {
        let has_started = members[0].log().matches("starting as the primary").count() == 2;
        let (_, metrics) = members[0].metrics("GET", "/metrics").await?;
        let is_reported = metrics.contains("\nensemble_postgres_role{role=\"Primary\"} 1.0\n");
        Ok(if has_started && is_reported { Ok(()) } else { Err((has_started, is_reported)) })
    };
    database.kubelet.until("the primary to run again", runs_alone).await.unwrap();
    database.kubelet.members[0].signal_all(Signal::STOP).unwrap();
    for standby in &database.kubelet.members[1..] {
        standby.signal_postgresql(Signal::CONT).unwrap();
    }
    assert_eq!(until_failed_over(&mut database, &ledger).await.unwrap(), [0; 0]);
    database.kubelet.members[0].signal_all(Signal::CONT).unwrap();
    database.until_complete().await.unwrap();
}

/// The Pod of a node that is down is being deleted until the node is back.
#[tokio::test]
async fn service_leads_to_the_new_primary_before_the_pod_of_the_former_is_gone() {
    let mut database = database().await.unwrap();
    let pods = database.kubelet.api::<Pod>();
    let hold = async |finalizers: Value| {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
        pods.patch("db-1", &PatchParams::default(), &patch).await.unwrap()
    };
    hold(json!(["example.com/hold"])).await;
    pods.delete("db-1", &DeleteParams::default()).await.unwrap();
    database.kubelet.members[0].kill().unwrap();
    database.until_failed_over().await.unwrap();
    let (primary, selector) = (database.status.primary.current.clone(), format!("{ROLE_LABEL}=primary"));
    let is_selected = async |_: &[Member]| {
        let selected = pods.list(&ListParams::default().labels(&selector)).await?;
        let names: Vec<_> = selected.iter().map(ResourceExt::name_any).collect();
        Ok(if names == [primary.clone()] { Ok(()) } else { Err(names) })
    };
    database.kubelet.until("the Service to select the new primary", is_selected).await.unwrap();
    let former = hold(json!(null)).await;
    assert!(former.metadata.deletion_timestamp.is_some());
    database.until_complete().await.unwrap();
}

/// Connections that nodes still route to the former primary are refused while its Pod has an address.
#[tokio::test]
async fn former_primary_ends_after_another_member_has_taken_over() {
    let mut database = database().await.unwrap();
    let pods = database.kubelet.api::<Pod>();
    pods.delete("db-1", &DeleteParams::default()).await.unwrap();
    database.until_failed_over().await.unwrap();
    let log = database.kubelet.members[0].log();
    assert!(log.contains("another member is the primary; refusing connections"), "{log}");
    database.until_complete().await.unwrap();
}

#[tokio::test]
async fn primary_that_does_not_start_is_replaced() {
    let mut database = database().await.unwrap();
    let mut ledger = Ledger::create(&database.kubelet.members[0]).unwrap();
    let client = connect(&database.kubelet.members[0]).await.unwrap();
    assert!(ledger.write(&client).await);
    let key = database.kubelet.members[0].folder().join("certificates/server/tls.key");
    let content = std::fs::read(&key).unwrap();
    std::fs::write(&key, "no key").unwrap();
    database.kubelet.members[0].signal_postgresql(Signal::KILL).unwrap();
    assert_eq!(until_failed_over(&mut database, &ledger).await.unwrap(), [0; 0]);
    let starts = database.kubelet.members[0].log().matches("starting as the primary").count();
    assert!(starts < 6, "{starts} starts without a pause: {}", database.kubelet.members[0].log());
    assert_ne!(database.status.primary.current, "db-1");
    std::fs::write(&key, content).unwrap();
    database.until_complete().await.unwrap();
}
