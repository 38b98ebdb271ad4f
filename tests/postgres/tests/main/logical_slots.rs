//! Subscribers of a PostgresCluster, which continue after its primary was replaced.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use operator_core::conditions::find;
use postgres::{PostgresClusterStatus, Role, SWITCHOVER};
use postgres_processes::{Database, Member, major_version};
use rustix::process::Signal;
use serde_json::json;

use crate::{
    application,
    ledger::{Application, Ledger},
    plain_server::PlainServer,
};

/// Returns whether PostgreSQL can copy logical slots.
fn can_copy_slots() -> bool {
    major_version().unwrap() >= 17
}

/// Creates a PostgresCluster whose logical slots are copied, with a role for subscribers.
async fn database() -> Database {
    let role =
        json!({"name": "subscriber", "login": true, "replication": true, "memberOf": ["pg_read_all_data"]});
    let slots = json!({"synchronizeLogical": true});
    Database::with(json!({"size": 3, "replicationSlots": slots, "roles": [role]})).await.unwrap()
}

/// Waits until all standbys use their slots.
async fn until_slots_are_used(database: &mut Database) {
    let uses = |status: &PostgresClusterStatus| {
        let standbys = status.instances.iter().filter(|instance| instance.role == Role::Replica);
        standbys.clone().count() == 2 && standbys.clone().all(|standby| standby.slot)
    };
    database.until("all standbys to use their slots", uses).await.unwrap();
    let primary = database.status.primary.current.clone();
    let check = async |members: &[Member]| {
        let primary = members.iter().find(|member| member.name == primary).context("no primary")?;
        let active = "SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'physical' AND active";
        let active = primary.query(active)?;
        Ok(if active == "2" { Ok(()) } else { Err(active) })
    };
    database.kubelet.until("both slots to be active", check).await.unwrap();
}

/// Waits until each standby has a copy of the subscriber's slot, with which it could become the primary.
async fn until_copied(database: &mut Database) {
    let primary = database.status.primary.current.clone();
    let check = async |members: &[Member]| {
        let copy = "SELECT slot_name, synced, temporary, invalidation_reason FROM pg_replication_slots \
                    WHERE slot_type = 'logical'";
        let standbys = members.iter().filter(|member| member.name != primary);
        let copies: Vec<_> = standbys.map(|member| member.query(copy)).collect::<Result<_>>()?;
        Ok(if copies == ["ledger|t|f|", "ledger|t|f|"] { Ok(()) } else { Err(copies) })
    };
    database.kubelet.until("both standbys to have the slot", check).await.unwrap();
}

#[tokio::test]
async fn subscriber_has_exactly_the_rows_of_the_primary_after_each_change_of_it() {
    let mut database = database().await;
    if !can_copy_slots() {
        return explains_that_the_version_is_too_old(&mut database).await;
    }
    database.until_complete().await.unwrap();
    until_slots_are_used(&mut database).await;
    let ledger = Ledger::create(&database.kubelet.members[0]).unwrap();
    database.primary().unwrap().sql("CREATE PUBLICATION ledger FOR TABLE ledger").unwrap();
    let writer = Application::start(ledger, &database.kubelet.members);
    let subscriber = subscribe(&database).await;
    until_copied(&mut database).await;

    // The process that copies slots gets no answer from a primary that is frozen, and a promotion waits for it.
    let former = database.status.primary.current.clone();
    database.kubelet.member(&former).unwrap().signal_all(Signal::STOP).unwrap();
    database.until_failed_over().await.unwrap();
    database.kubelet.member(&former).unwrap().signal_all(Signal::CONT).unwrap();
    database.until_complete().await.unwrap();
    until_slots_are_used(&mut database).await;
    until_copied(&mut database).await;

    // The former primary has a slot that is no copy.
    database.annotate(SWITCHOVER, "any").await.unwrap();
    database.until_epoch(3).await.unwrap();
    database.until_complete().await.unwrap();
    until_slots_are_used(&mut database).await;
    until_copied(&mut database).await;

    // Each of them starts as a standby, and one becomes the primary again with the slot that it has.
    for member in &mut database.kubelet.members {
        member.kill().unwrap();
    }
    for member in &mut database.kubelet.members {
        member.start().unwrap();
    }
    database.until_complete().await.unwrap();
    until_slots_are_used(&mut database).await;
    until_copied(&mut database).await;

    let (ledger, _) = writer.stop().await.unwrap();
    let (acknowledged, lost) = ledger.check(database.primary().unwrap()).await.unwrap();
    assert_eq!(lost, [0; 0], "of {acknowledged}");
    assert_same_rows(&mut database, &subscriber).await;
}

/// Creates a subscriber that connects to whichever member is the primary.
async fn subscribe(database: &Database) -> PlainServer {
    let secret = application::read_secret(&database.kubelet, "db-role-subscriber").await.unwrap();
    let addresses: Vec<_> = database.kubelet.members.iter().map(|it| it.address.to_string()).collect();
    let subscriber = PlainServer::start("copy").unwrap();
    subscriber.sql("copy", "CREATE TABLE ledger (number bigint PRIMARY KEY)").unwrap();
    let subscription = format!(
        "CREATE SUBSCRIPTION ledger CONNECTION 'host={} user=subscriber password={} dbname=postgres \
         target_session_attrs=read-write connect_timeout=2' PUBLICATION ledger WITH (failover = true)",
        addresses.join(","),
        secret["password"]
    );
    let result = subscriber.sql("copy", &subscription);
    result.unwrap_or_else(|error| panic!("{error:#}\n{}", database.kubelet.logs()));
    subscriber
}

/// Waits until the subscriber has all rows of the primary, and asserts that it has no other.
async fn assert_same_rows(database: &mut Database, subscriber: &PlainServer) {
    const ROWS: &str = "SELECT number FROM ledger";
    let primary = database.primary().unwrap().query(ROWS).unwrap();
    let primary: BTreeSet<i64> = primary.lines().map(|number| number.parse().unwrap()).collect();
    let client = subscriber.connect("copy").await.unwrap();
    let check = async |_: &[Member]| {
        let rows: BTreeSet<i64> = client.query(ROWS, &[]).await?.iter().map(|row| row.get(0)).collect();
        assert!(rows.is_subset(&primary), "{:?} are only at the subscriber", rows.difference(&primary));
        Ok(if rows == primary { Ok(()) } else { Err((rows.len(), primary.len())) })
    };
    database.kubelet.until("the subscriber to have all rows", check).await.unwrap();
}

async fn explains_that_the_version_is_too_old(database: &mut Database) {
    let is_explained = |status: &PostgresClusterStatus| {
        find(&status.conditions, "ConfigurationApplied").is_some_and(|it| {
            it.reason == "ParametersRefused"
                && it.message.contains("spec.replicationSlots.synchronizeLogical requires 17")
        })
    };
    database.until("explained", is_explained).await.unwrap();
    let all_are_ready = |status: &PostgresClusterStatus| status.ready_members == 3;
    database.until("all members to work without it", all_are_ready).await.unwrap();
}

#[tokio::test]
async fn slots_are_dropped_when_they_are_no_longer_asked_for() {
    let mut database = database().await;
    if !can_copy_slots() {
        return explains_that_the_version_is_too_old(&mut database).await;
    }
    database.until_complete().await.unwrap();
    until_slots_are_used(&mut database).await;
    database.change(json!({"size": 2})).await.unwrap();
    until_slots(&mut database, "ensemble_1 ensemble_2").await;
    database.change(json!({"replicationSlots": {"synchronizeLogical": false}})).await.unwrap();
    until_slots(&mut database, "").await;
    let use_none = |status: &PostgresClusterStatus| status.instances.iter().all(|instance| !instance.slot);
    database.until("no member to use a slot", use_none).await.unwrap();
    database.until_complete().await.unwrap();
    assert!(use_none(&database.status));
}

/// Waits until both members run, and have these slots together.
async fn until_slots(database: &mut Database, expected: &str) {
    let check = async |members: &[Member]| {
        let answers = members.iter().map(|member| member.query("SELECT slot_name FROM pg_replication_slots"));
        let answers: Vec<_> = answers.filter_map(Result::ok).collect();
        let slots: BTreeSet<_> = answers.iter().flat_map(|answer| answer.lines()).collect();
        let slots = slots.into_iter().collect::<Vec<_>>().join(" ");
        let is_so = (answers.len(), slots.as_str()) == (2, expected);
        Ok(if is_so { Ok(()) } else { Err((answers.len(), slots)) })
    };
    database.kubelet.until(&format!("the slots to be {expected:?}"), check).await.unwrap();
}

#[tokio::test]
async fn wal_level_of_the_spec_is_used() {
    let spec = json!({"size": 1, "parameters": {"wal_level": "logical"}});
    let mut database = Database::with(spec).await.unwrap();
    database.until_complete().await.unwrap();
    assert_eq!(database.primary().unwrap().query("SHOW wal_level").unwrap(), "logical");
}
