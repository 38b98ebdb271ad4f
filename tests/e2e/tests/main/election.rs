//! Three managers of which one leads each controller: ended, killed, frozen, and cut off from the API server.

use std::time::{Duration, Instant};

use cluster::{audit::Mark, wait::eventually};
use k8s_openapi::jiff::Timestamp;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::support::{
    Account, Forwarder, MEMCACHED, Manager, NAMESPACE_PLUS, PATIENCE, POD_SET, QUICK, Stage, TENANT,
};

const LEASE: Duration = Duration::from_secs(3);
/// What a hand-over may take besides.
const HAND_OVER: Duration = Duration::from_secs(2);

/// The cluster of these tests; each has a controller of its own.
async fn arena() -> &'static Stage {
    static ARENA: OnceCell<Stage> = OnceCell::const_new();
    ARENA.get_or_init(Stage::complete).await
}

/// The replicas of one controller.
struct Replicas {
    stage: &'static Stage,
    controller: &'static str,
    accounts: Vec<Account>,
    managers: Vec<Manager>,
    began: Mark,
}

impl Replicas {
    async fn of(controller: &'static str) -> Self {
        let stage = arena().await;
        let began = stage.cluster.audit_mark().unwrap();
        Self { stage, controller, accounts: Vec::new(), managers: Vec::new(), began }
    }

    fn name(&self, number: usize) -> String {
        format!("{}-{number}", self.controller)
    }

    async fn account(&self) -> Account {
        self.stage.replica(&self.name(self.accounts.len()), &[self.controller]).await
    }

    fn start(&mut self, account: Account) {
        let name = self.name(self.accounts.len());
        let (only, instance) = (format!("--controllers={}", self.controller), format!("--instance={name}"));
        let args = [&["--leader-elect", "--log-format=json", &only, &instance], QUICK.as_slice()].concat();
        self.managers.push(self.stage.start(&name, &account, &args));
        self.accounts.push(account);
    }

    /// Starts three, and waits until one leads. Returns which.
    async fn start_three(&mut self) -> usize {
        for _ in 0..3 {
            let account = self.account().await;
            self.start(account);
        }
        self.until_led(None).await
    }

    /// Waits until another leads. Returns which.
    async fn until_led(&self, before: Option<usize>) -> usize {
        let before = before.map(|number| self.name(number)).unwrap_or_default();
        let holder = self.stage.until_led(self.controller, &before).await;
        (0..self.accounts.len()).find(|number| self.name(*number) == holder).expect("one of ours should lead")
    }

    /// Waits until a manager says so, and returns the line.
    async fn until_says(&self, number: usize, message: &str) -> Value {
        eventually(&format!("{} to say {message:?}", self.name(number)), PATIENCE, async || {
            let log = self.managers[number].log();
            let lines = log.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            Ok(lines.into_iter().find(|line| line["message"] == message).ok_or(log))
        })
        .await
        .unwrap()
    }

    /// Returns how many writes there were.
    fn assert_only_holders_wrote(&self) -> usize {
        let accounts: Vec<_> = self.accounts.iter().collect();
        let (writes, hands) = self.stage.assert_only_holders_wrote(&accounts, self.began);
        println!("{}: {writes} writes, {hands} hand-overs, none by another than the leader", self.controller);
        writes
    }
}

#[tokio::test]
async fn a_clean_stop_hands_over_at_once_and_a_kill_when_the_lease_ends() {
    let mut replicas = Replicas::of("podset").await;
    let first = replicas.start_three().await;
    let stage = replicas.stage;
    let namespace = stage.cluster.namespace("election").await.unwrap();
    stage.create(&POD_SET, &namespace, "web", json!({ "replicas": 3 })).await;
    stage.until_settled(&POD_SET, &namespace, "web").await;

    let began = Instant::now();
    replicas.managers[first].signal(Signal::TERM);
    let second = replicas.until_led(Some(first)).await;
    let took = began.elapsed();
    println!("clean stop to next leader: {took:?}");
    assert!(took < HAND_OVER, "{took:?}");
    let said = replicas.until_says(first, "stopped leading").await;
    assert_eq!(said["why"], "the Lease is being released");
    stage.change(&POD_SET, &namespace, "web", json!({ "replicas": 5 })).await;
    stage.until_settled(&POD_SET, &namespace, "web").await;

    let began = Instant::now();
    replicas.managers[second].signal(Signal::KILL);
    let third = replicas.until_led(Some(second)).await;
    let took = began.elapsed();
    println!("kill to next leader, lease {LEASE:?}: {took:?}");
    assert!(took < LEASE + HAND_OVER, "{took:?}");
    stage.change(&POD_SET, &namespace, "web", json!({ "replicas": 1 })).await;
    stage.until_settled(&POD_SET, &namespace, "web").await;
    assert!(![first, second].contains(&third));
    assert!(replicas.assert_only_holders_wrote() > 0);
}

#[tokio::test]
async fn a_leader_that_was_frozen_past_its_lease_writes_nothing_when_it_thaws() {
    let mut replicas = Replicas::of("memcached").await;
    let first = replicas.start_three().await;
    let stage = replicas.stage;
    let namespace = stage.cluster.namespace("election").await.unwrap();
    stage.create(&MEMCACHED, &namespace, "web", json!({ "size": 2 })).await;
    stage.until_settled(&MEMCACHED, &namespace, "web").await;
    let user = replicas.accounts[first].user();
    let mut since = None;
    for size in [3, 4] {
        // The first time it is frozen in the midst of work, and thaws with more of it waiting.
        stage.change(&MEMCACHED, &namespace, "web", json!({ "size": size })).await;
        replicas.managers[first].signal(Signal::STOP);
        if since.is_none() {
            replicas.until_led(Some(first)).await;
            since = Some(stage.cluster.audit_mark().unwrap());
        }
        stage.change(&MEMCACHED, &namespace, "web", json!({ "size": size + 2 })).await;
        replicas.managers[first].signal(Signal::CONT);
        stage.until_settled(&MEMCACHED, &namespace, "web").await;
    }
    replicas.until_says(first, "stopped leading").await;
    let log = stage.cluster.audit_since(since.unwrap()).unwrap().by_user(&user).writes();
    assert_eq!(log.clone().filter(|entry| entry.code < 400).entries, []);
    // It tries to renew the Lease that it had. Of anything else, only the one request may follow that had passed the
    // fence and was on its way to the socket when the process froze; it is dropped before its answer, or refused.
    let on_their_way = log.filter(|entry| entry.resource != "leases").entries;
    assert!(on_their_way.len() <= 1, "{on_their_way:?}");
    assert!(replicas.assert_only_holders_wrote() > 0);
}

#[tokio::test]
async fn a_leader_that_is_cut_off_stops_before_another_begins_and_comes_back_as_a_candidate() {
    let mut replicas = Replicas::of("namespaceplus").await;
    let stage = replicas.stage;
    let forwarder = Forwarder::new(stage).await;
    let account = replicas.account().await;
    replicas.start(forwarder.lead(stage, &account));
    let first = replicas.until_led(None).await;
    let account = replicas.account().await;
    replicas.start(account);
    replicas.until_says(1, "the manager starts").await;
    let home = stage.cluster.namespace("election").await.unwrap();
    stage.create(&NAMESPACE_PLUS, &home, "cut-off-plus", json!({ "deletionPolicy": "Delete" })).await;
    stage.until_settled(&NAMESPACE_PLUS, &home, "cut-off-plus").await;

    forwarder.cut();
    let change = json!({ "labels": { "team": "blue" } });
    stage.change(&NAMESPACE_PLUS, &home, "cut-off-plus", change).await;
    let second = replicas.until_led(Some(first)).await;
    let lease = stage.leases().await.get("ensemble-namespaceplus").await.unwrap();
    let acquired = lease.spec.unwrap().acquire_time.unwrap().0;
    let stopped = replicas.until_says(first, "stopped leading").await;
    assert_eq!(stopped["why"], "the renew deadline passed");
    let stopped: Timestamp = stopped["timestamp"].as_str().unwrap().parse().unwrap();
    println!("cut off: the old leader stopped {} before the new one began", stopped.duration_until(acquired));
    assert!(stopped < acquired, "stopped at {stopped}, the other began at {acquired}");
    stage.until_settled(&NAMESPACE_PLUS, &home, "cut-off-plus").await;

    forwarder.restore();
    replicas.managers[second].signal(Signal::TERM);
    assert_eq!(replicas.until_led(Some(second)).await, first);
    let change = json!({ "labels": { "team": "green" } });
    stage.change(&NAMESPACE_PLUS, &home, "cut-off-plus", change).await;
    stage.until_settled(&NAMESPACE_PLUS, &home, "cut-off-plus").await;
    assert!(replicas.assert_only_holders_wrote() > 0);
}

#[tokio::test]
async fn without_election_no_lease_is_touched() {
    let stage = arena().await;
    let account = stage.account("tenant-alone").await;
    stage.permit_account(&account, "tenant").await;
    stage.permit_account(&account, "capsuleconfiguration").await;
    let args = ["--controllers=tenant", "--leader-elect=false"];
    let _manager = stage.start("tenant-alone", &account, &args);
    stage.create(&TENANT, "", "alone", json!({ "owners": [{ "kind": "User", "name": "alice" }] })).await;
    stage.until_settled(&TENANT, "", "alone").await;
    assert!(!stage.holders().await.contains_key("tenant"));
    assert_eq!(stage.requests(&account).filter(|entry| entry.resource == "leases").entries, []);
}
