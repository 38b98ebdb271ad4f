//! Leader election between three managers that are stopped, killed, frozen, and disconnected from
//! the API server.

use std::time::{Duration, Instant};

use cluster::{audit::Mark, wait::eventually};
use k8s_openapi::jiff::Timestamp;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::support::{
    Account, Forwarder, MEMCACHED, Manager, NAMESPACE_PLUS, PATIENCE, POD_SET, QUICK, TENANT, TestEnv,
};

const LEASE: Duration = Duration::from_secs(3);
/// Additional time for a failover.
const FAILOVER_MARGIN: Duration = Duration::from_secs(2);

/// Shared cluster of these tests. Each test uses a different controller.
async fn shared_cluster() -> &'static TestEnv {
    static SHARED_CLUSTER: OnceCell<TestEnv> = OnceCell::const_new();
    SHARED_CLUSTER.get_or_init(TestEnv::complete).await
}

/// Replicas of a manager with one controller.
struct Replicas {
    env: &'static TestEnv,
    controller: &'static str,
    accounts: Vec<Account>,
    managers: Vec<Manager>,
    began: Mark,
}

impl Replicas {
    async fn of(controller: &'static str) -> Self {
        let env = shared_cluster().await;
        let began = env.cluster.audit_mark().unwrap();
        Self { env, controller, accounts: Vec::new(), managers: Vec::new(), began }
    }

    fn name(&self, number: usize) -> String {
        format!("{}-{number}", self.controller)
    }

    async fn account(&self) -> Account {
        self.env.replica(&self.name(self.accounts.len()), &[self.controller]).await
    }

    fn start(&mut self, account: Account) {
        let name = self.name(self.accounts.len());
        let (only, instance) = (format!("--controllers={}", self.controller), format!("--instance={name}"));
        let args = [&["--leader-elect", "--log-format=json", &only, &instance], QUICK.as_slice()].concat();
        self.managers.push(self.env.start(&name, &account, &args));
        self.accounts.push(account);
    }

    /// Starts three replicas, waits until one leads, and returns its number.
    async fn start_three(&mut self) -> usize {
        for _ in 0..3 {
            let account = self.account().await;
            self.start(account);
        }
        self.until_led(None).await
    }

    /// Waits until a replica other than `before` leads, and returns its number.
    async fn until_led(&self, before: Option<usize>) -> usize {
        let before = before.map(|number| self.name(number)).unwrap_or_default();
        let holder = self.env.until_led(self.controller, &before).await;
        (0..self.accounts.len()).find(|number| self.name(*number) == holder).expect("a replica should lead")
    }

    /// Waits for a message in a manager's log, and returns its line.
    async fn until_message(&self, number: usize, message: &str) -> Value {
        eventually(&format!("{} to log {message:?}", self.name(number)), PATIENCE, async || {
            let log = self.managers[number].log();
            let lines = log.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            Ok(lines.into_iter().find(|line| line["message"] == message).ok_or(log))
        })
        .await
        .unwrap()
    }

    /// Returns the number of writes.
    fn assert_only_holders_wrote(&self) -> usize {
        let accounts: Vec<_> = self.accounts.iter().collect();
        let (writes, hands) = self.env.assert_only_holders_wrote(&accounts, self.began);
        println!("{}: {writes} writes, {hands} failovers, no writes by other replicas", self.controller);
        writes
    }
}

#[tokio::test]
async fn failover_is_immediate_on_stop_and_after_lease_on_kill() {
    let mut replicas = Replicas::of("podset").await;
    let first = replicas.start_three().await;
    let env = replicas.env;
    let namespace = env.cluster.namespace("election").await.unwrap();
    env.create(&POD_SET, &namespace, "web", json!({ "replicas": 3 })).await;
    env.until_ready(&POD_SET, &namespace, "web").await;

    let began = Instant::now();
    replicas.managers[first].signal(Signal::TERM);
    let second = replicas.until_led(Some(first)).await;
    let took = began.elapsed();
    println!("clean stop to next leader: {took:?}");
    assert!(took < FAILOVER_MARGIN, "{took:?}");
    let line = replicas.until_message(first, "stopped leading").await;
    assert_eq!(line["reason"], "the Lease is being released");
    env.change(&POD_SET, &namespace, "web", json!({ "replicas": 5 })).await;
    env.until_ready(&POD_SET, &namespace, "web").await;

    let began = Instant::now();
    replicas.managers[second].signal(Signal::KILL);
    let third = replicas.until_led(Some(second)).await;
    let took = began.elapsed();
    println!("kill to next leader, lease {LEASE:?}: {took:?}");
    assert!(took < LEASE + FAILOVER_MARGIN, "{took:?}");
    env.change(&POD_SET, &namespace, "web", json!({ "replicas": 1 })).await;
    env.until_ready(&POD_SET, &namespace, "web").await;
    assert!(![first, second].contains(&third));
    assert!(replicas.assert_only_holders_wrote() > 0);
}

#[tokio::test]
async fn leader_frozen_past_its_lease_writes_nothing() {
    let mut replicas = Replicas::of("memcached").await;
    let first = replicas.start_three().await;
    let env = replicas.env;
    let namespace = env.cluster.namespace("election").await.unwrap();
    env.create(&MEMCACHED, &namespace, "web", json!({ "size": 2 })).await;
    env.until_ready(&MEMCACHED, &namespace, "web").await;
    let user = replicas.accounts[first].user();
    let mut since = None;
    for size in [3, 4] {
        // The leader is frozen while it works, and resumes with more work pending.
        env.change(&MEMCACHED, &namespace, "web", json!({ "size": size })).await;
        replicas.managers[first].signal(Signal::STOP);
        if since.is_none() {
            replicas.until_led(Some(first)).await;
            since = Some(env.cluster.audit_mark().unwrap());
        }
        env.change(&MEMCACHED, &namespace, "web", json!({ "size": size + 2 })).await;
        replicas.managers[first].signal(Signal::CONT);
        env.until_ready(&MEMCACHED, &namespace, "web").await;
    }
    replicas.until_message(first, "stopped leading").await;
    let log = env.cluster.audit_since(since.unwrap()).unwrap().by_user(&user).writes();
    assert_eq!(log.clone().filter(|entry| entry.code < 400).entries, []);
    // The resumed leader tries to renew its old Lease. At most one other request may follow: one
    // that passed the fence before the freeze. Its connection is closed before the response, or it
    // is rejected.
    let in_flight = log.filter(|entry| entry.resource != "leases").entries;
    assert!(in_flight.len() <= 1, "{in_flight:?}");
    assert!(replicas.assert_only_holders_wrote() > 0);
}

#[tokio::test]
async fn disconnected_leader_stops_before_failover_and_returns_as_standby() {
    let mut replicas = Replicas::of("namespaceplus").await;
    let env = replicas.env;
    let forwarder = Forwarder::new(env).await;
    let account = replicas.account().await;
    replicas.start(forwarder.lead(env, &account));
    let first = replicas.until_led(None).await;
    let account = replicas.account().await;
    replicas.start(account);
    replicas.until_message(1, "the manager starts").await;
    let home = env.cluster.namespace("election").await.unwrap();
    env.create(&NAMESPACE_PLUS, &home, "cut-off-plus", json!({ "deletionPolicy": "Delete" })).await;
    env.until_ready(&NAMESPACE_PLUS, &home, "cut-off-plus").await;

    forwarder.cut();
    let change = json!({ "labels": { "team": "blue" } });
    env.change(&NAMESPACE_PLUS, &home, "cut-off-plus", change).await;
    let second = replicas.until_led(Some(first)).await;
    let lease = env.leases().await.get("ensemble-namespaceplus").await.unwrap();
    let acquired = lease.spec.unwrap().acquire_time.unwrap().0;
    let stopped = replicas.until_message(first, "stopped leading").await;
    assert_eq!(stopped["reason"], "the renew deadline passed");
    let stopped: Timestamp = stopped["timestamp"].as_str().unwrap().parse().unwrap();
    println!("cut off: the old leader stopped {} before the new one began", stopped.duration_until(acquired));
    assert!(stopped < acquired, "stopped at {stopped}, the other began at {acquired}");
    env.until_ready(&NAMESPACE_PLUS, &home, "cut-off-plus").await;

    forwarder.restore();
    replicas.managers[second].signal(Signal::TERM);
    assert_eq!(replicas.until_led(Some(second)).await, first);
    let change = json!({ "labels": { "team": "green" } });
    env.change(&NAMESPACE_PLUS, &home, "cut-off-plus", change).await;
    env.until_ready(&NAMESPACE_PLUS, &home, "cut-off-plus").await;
    assert!(replicas.assert_only_holders_wrote() > 0);
}

#[tokio::test]
async fn leases_are_not_used_without_leader_election() {
    let env = shared_cluster().await;
    let account = env.account("tenant-alone").await;
    env.grant_controller_rights(&account, "tenant").await;
    env.grant_controller_rights(&account, "capsuleconfiguration").await;
    let args = ["--controllers=tenant", "--leader-elect=false"];
    let _manager = env.start("tenant-alone", &account, &args);
    env.create(&TENANT, "", "alone", json!({ "owners": [{ "kind": "User", "name": "alice" }] })).await;
    env.until_ready(&TENANT, "", "alone").await;
    assert!(!env.holders().await.contains_key("tenant"));
    assert_eq!(env.requests(&account).filter(|entry| entry.resource == "leases").entries, []);
}
