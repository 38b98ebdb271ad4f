//! Leases on a real API server.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use cluster::{Cluster, Component, audit::Mark, wait::eventually};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use operator_core::{client::Clients, fence::Fence, metrics::NoMetrics};
use operator_runtime::election::{Election, Leadership, Timing, lease_name, unused_lease};
use serde_json::{Value, json};

const CONTROLLER: &str = "podset";
const LEASE: Duration = Duration::from_secs(3);
const DEADLINE: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(30);

fn quick() -> Timing {
    Timing::new(LEASE, DEADLINE, Duration::from_millis(500)).unwrap()
}

/// A namespace with a Lease that nobody has held, or without.
struct World<'c> {
    cluster: &'c Cluster,
    client: Client,
    namespace: String,
    began: Mark,
}

/// A process.
struct Process {
    /// Ends its watch when dropped.
    _election: Election,
    identity: String,
    fence: Fence,
    leadership: Leadership,
}

impl Process {
    async fn leads(mut self) -> Self {
        tokio::time::timeout(PATIENCE, self.leadership.gained()).await.unwrap().unwrap();
        assert!(self.fence.check().is_ok());
        self
    }

    fn is_leading(&self) -> bool {
        self.fence.check().is_ok()
    }
}

impl<'c> World<'c> {
    async fn without_lease(cluster: &'c Cluster) -> Self {
        let mut config = cluster.config().await.unwrap();
        config.default_retry = false;
        let client = Client::try_from(config).unwrap();
        let namespace = cluster.namespace("election").await.unwrap();
        let name = namespace.name().to_owned();
        // It is small, and goes with the cluster.
        std::mem::forget(namespace);
        Self { cluster, client, namespace: name, began: cluster.audit_mark().unwrap() }
    }

    async fn new(cluster: &'c Cluster) -> Self {
        let world = Self::without_lease(cluster).await;
        let lease = unused_lease(CONTROLLER, &world.namespace);
        world.leases().create(&PostParams::default(), &lease).await.unwrap();
        world
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn process(&self, name: &str, timing: Timing) -> Process {
        let client = Clients::new(self.client.clone()).named(name);
        let election = Election::new(client, &self.namespace, name, timing, Arc::new(NoMetrics));
        let fence = Fence::closed();
        let leadership = election.campaign(CONTROLLER, fence.clone());
        let identity = election.identity().to_owned();
        Process { _election: election, identity, fence, leadership }
    }

    async fn until_holder(&self, identity: &str) -> Lease {
        eventually("the holder to change", PATIENCE, async || {
            let lease = self.leases().get(&lease_name(CONTROLLER)).await?;
            let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
            Ok(if holder.as_deref() == Some(identity) { Ok(lease) } else { Err(holder) })
        })
        .await
        .unwrap()
    }

    async fn patch(&self, patch: Value) {
        let (name, params) = (lease_name(CONTROLLER), PatchParams::default());
        self.leases().patch(&name, &params, &Patch::Merge(patch)).await.unwrap();
    }

    /// What a process has asked for about Leases, watches left out: verbs.
    fn asked(&self, name: &str) -> Vec<String> {
        let agent = format!("ensemble/{} ({name})", env!("CARGO_PKG_VERSION"));
        let log = self.cluster.audit_since(self.began).unwrap().in_namespace(&self.namespace);
        let log = log.by_user_agent(&agent).filter(|entry| entry.verb != "watch");
        log.entries.into_iter().map(|entry| entry.verb).collect()
    }
}

async fn shared() -> &'static Cluster {
    cluster::shared().await.unwrap()
}

/// Holds a process to leading all the time for a while.
async fn assert_leads_on(process: &Process, time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        assert!(process.is_leading(), "after {:?}", began.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn an_unused_lease_is_taken_at_once_renewed_seldom_and_given_back_to_the_next() {
    let world = World::new(shared().await).await;
    let began = Instant::now();
    let first = world.process("first", quick()).leads().await;
    println!("unused Lease to leader: {:?}", began.elapsed());
    let lease = world.until_holder(&first.identity).await;
    let spec = lease.spec.unwrap();
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(3), Some(1)));
    assert!(spec.acquire_time.is_some() && spec.renew_time >= spec.acquire_time);
    let second = world.process("second", quick());
    assert_leads_on(&first, LEASE * 2).await;
    assert!(!second.is_leading());
    let (leader, standby) = (world.asked("first"), world.asked("second"));
    println!("within two leases of {LEASE:?} the leader asked {leader:?}, the standby {standby:?}");
    let renewals = leader.iter().filter(|verb| *verb == "update").count();
    assert!((5..=8).contains(&renewals), "it renews every third of a lease: {leader:?}");
    assert!(leader.len() - renewals <= 4, "{leader:?}");
    assert!(standby.len() <= 2, "a standby hears, and does not ask: {standby:?}");

    let began = Instant::now();
    first.leadership.resign().await;
    assert!(first.fence.check().is_err());
    let second = second.leads().await;
    println!("given back to next leader: {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    world.until_holder(&second.identity).await;
}

#[tokio::test]
async fn a_lease_that_is_not_there_is_made_and_led_only_after_its_duration() {
    let world = World::without_lease(shared().await).await;
    let began = Instant::now();
    let first = world.process("first", quick()).leads().await;
    assert!(began.elapsed() >= LEASE, "{:?}", began.elapsed());
    world.until_holder(&first.identity).await;
}

#[tokio::test]
async fn a_leader_keeps_a_lease_that_is_deleted_emptied_or_touched() {
    let world = World::new(shared().await).await;
    let first = world.process("first", quick()).leads().await;
    let second = world.process("second", quick());
    world.leases().delete(&lease_name(CONTROLLER), &DeleteParams::default()).await.unwrap();
    assert_leads_on(&first, LEASE).await;
    world.until_holder(&first.identity).await;
    world.patch(json!({ "spec": { "holderIdentity": "" } })).await;
    assert_leads_on(&first, LEASE).await;
    world.until_holder(&first.identity).await;
    world
        .patch(json!({ "spec": { "leaseDurationSeconds": 1 }, "metadata": { "labels": { "team": "blue" } } }))
        .await;
    assert_leads_on(&first, LEASE).await;
    let lease = world.until_holder(&first.identity).await;
    assert_eq!(lease.spec.unwrap().lease_duration_seconds, Some(3));
    assert_eq!(lease.metadata.labels.unwrap()["team"], "blue");
    assert!(!second.is_leading());
}

#[tokio::test]
async fn a_leader_stops_at_once_when_another_stands_in_the_lease_and_waits_for_it_to_age() {
    let world = World::new(shared().await).await;
    let mut first = world.process("first", quick()).leads().await;
    world.patch(json!({ "spec": { "holderIdentity": "stranger" } })).await;
    let began = Instant::now();
    tokio::time::timeout(PATIENCE, first.leadership.lost()).await.unwrap();
    assert!(!first.is_leading());
    println!("another holder to stopped: {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    let first = first.leads().await;
    assert!(began.elapsed() >= DEADLINE, "{:?}", began.elapsed());
    world.until_holder(&first.identity).await;
}

#[tokio::test]
async fn a_leader_without_an_api_server_stops_before_its_lease_ends_and_comes_back() {
    let cluster = cluster::isolated().await.unwrap();
    let world = World::new(&cluster).await;
    let mut first = world.process("first", quick()).leads().await;
    cluster.kill_component(Component::KubeApiserver).unwrap();
    let began = Instant::now();
    tokio::time::timeout(PATIENCE, first.leadership.lost()).await.unwrap();
    assert!(!first.is_leading());
    println!("API server gone to stopped: {:?}", began.elapsed());
    assert!(began.elapsed() < LEASE, "{:?}", began.elapsed());
    cluster.start_component(Component::KubeApiserver).unwrap();
    first.leads().await;
    cluster.stop().unwrap();
}
