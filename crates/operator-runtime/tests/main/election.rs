//! Tests of leader election.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use cluster::{Cluster, Component, audit::Mark, wait::eventually};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use lease::anchor_name;
use operator_core::{client::Clients, fence::Fence, metrics::NoMetrics};
use operator_runtime::election::{Election, Leadership, Timing, lease_name, unused_lease};
use serde_json::{Value, json};

const CONTROLLER: &str = "podset";
const CONTROLLERS: [&str; 3] = [CONTROLLER, "memcached", "tenant"];
const LEASE: Duration = Duration::from_secs(3);
const DEADLINE: Duration = Duration::from_secs(2);
const TIMEOUT: Duration = Duration::from_secs(30);

fn quick() -> Timing {
    Timing::new(LEASE, DEADLINE, Duration::from_millis(500)).unwrap()
}

/// Namespace for the Lease of a test.
struct TestEnv<'c> {
    cluster: &'c Cluster,
    client: Client,
    namespace: String,
    started: Mark,
}

/// Simulated replica.
struct Process {
    /// The watch ends when it is dropped.
    _election: Election,
    identity: String,
    fence: Fence,
    leadership: Leadership,
}

impl Process {
    async fn until_leading(mut self) -> Self {
        tokio::time::timeout(TIMEOUT, self.leadership.gained()).await.unwrap().unwrap();
        assert!(self.fence.check().is_ok());
        self
    }

    fn is_leading(&self) -> bool {
        self.fence.check().is_ok()
    }
}

/// Simulated replica with several controllers.
struct Replica {
    candidates: Vec<(Leadership, Fence)>,
    /// The watch ends when it is dropped.
    _election: Election,
}

impl Replica {
    fn leads(&self) -> usize {
        self.candidates.iter().filter(|(_, fence)| fence.check().is_ok()).count()
    }

    async fn until_leading_all(&mut self) {
        for (leadership, _) in &mut self.candidates {
            tokio::time::timeout(TIMEOUT, leadership.gained()).await.unwrap().unwrap();
        }
    }
}

impl<'c> TestEnv<'c> {
    async fn without_lease(cluster: &'c Cluster) -> Self {
        let mut config = cluster.config().await.unwrap();
        config.default_retry = false;
        let client = Client::try_from(config).unwrap();
        let namespace = cluster.namespace("election").await.unwrap();
        let name = namespace.name().to_owned();
        // Leaked: the namespace is small and is deleted with the cluster.
        std::mem::forget(namespace);
        Self { cluster, client, namespace: name, started: cluster.audit_mark().unwrap() }
    }

    async fn new(cluster: &'c Cluster) -> Self {
        Self::with_leases(cluster, [CONTROLLER]).await
    }

    async fn with_leases(cluster: &'c Cluster, controllers: impl IntoIterator<Item = &str>) -> Self {
        let env = Self::without_lease(cluster).await;
        for controller in controllers {
            let lease = unused_lease(controller, &env.namespace);
            env.leases().create(&PostParams::default(), &lease).await.unwrap();
        }
        env
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn election(&self, name: &str) -> Election {
        let client = Clients::new(self.client.clone()).named(name);
        Election::new(client, &self.namespace, name, quick(), Arc::new(NoMetrics))
    }

    fn process(&self, name: &str) -> Process {
        let election = self.election(name);
        let fence = Fence::closed();
        let leadership = election.campaign(CONTROLLER, fence.clone());
        let identity = election.identity().to_owned();
        Process { _election: election, identity, fence, leadership }
    }

    /// Returns a replica that is a candidate for all of [`CONTROLLERS`].
    fn replica(&self, name: &str) -> Replica {
        let election = self.election(name);
        let campaign = |controller| {
            let fence = Fence::closed();
            (election.campaign(controller, fence.clone()), fence)
        };
        Replica { candidates: CONTROLLERS.map(campaign).into(), _election: election }
    }

    /// Returns how many requests of a process changed each of [`CONTROLLERS`]'s Leases.
    fn updates(&self, name: &str, since: Mark) -> [usize; CONTROLLERS.len()] {
        let agent = format!("ensemble/{} ({name})", env!("CARGO_PKG_VERSION"));
        let log = self.cluster.audit_since(since).unwrap().in_namespace(&self.namespace);
        let log = log.by_user_agent(&agent).filter(|entry| entry.verb == "update");
        CONTROLLERS.map(|controller| {
            let lease = lease_name(controller);
            log.entries.iter().filter(|entry| entry.name == lease).count()
        })
    }

    async fn until_holder(&self, identity: &str) -> Lease {
        eventually("the holder to change", TIMEOUT, async || {
            let lease = self.leases().get(&lease_name(CONTROLLER)).await?;
            let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
            Ok(if holder.as_deref() == Some(identity) { Ok(lease) } else { Err(holder) })
        })
        .await
        .unwrap()
    }

    /// Waits until all Leases but one name the anchor.
    async fn until_one_anchor(&self) {
        eventually("one anchor", TIMEOUT, async || {
            let leases = self.leases().list(&ListParams::default()).await?.items;
            Ok(leases.iter().filter(|lease| anchor_name(lease).is_none()).count() == 1)
        })
        .await
        .unwrap();
    }

    async fn patch(&self, patch: Value) {
        let (name, params) = (lease_name(CONTROLLER), PatchParams::default());
        self.leases().patch(&name, &params, &Patch::Merge(patch)).await.unwrap();
    }

    /// Returns the verbs of the requests of a process for Leases, without watches.
    fn request_verbs(&self, name: &str) -> Vec<String> {
        let agent = format!("ensemble/{} ({name})", env!("CARGO_PKG_VERSION"));
        let log = self.cluster.audit_since(self.started).unwrap().in_namespace(&self.namespace);
        let log = log.by_user_agent(&agent).filter(|entry| entry.verb != "watch");
        log.entries.into_iter().map(|entry| entry.verb).collect()
    }
}

async fn shared() -> &'static Cluster {
    cluster::shared().await.unwrap()
}

/// Asserts that a process leads without interruption for `time`.
async fn assert_keeps_leading(process: &Process, time: Duration) {
    let started = Instant::now();
    while started.elapsed() < time {
        assert!(process.is_leading(), "after {:?}", started.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn acquires_unused_lease_renews_it_and_releases_it_on_resign() {
    let env = TestEnv::new(shared().await).await;
    let started = Instant::now();
    let first = env.process("first").until_leading().await;
    println!("unused Lease to leader: {:?}", started.elapsed());
    let lease = env.until_holder(&first.identity).await;
    let spec = lease.spec.unwrap();
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(3), Some(1)));
    assert!(spec.acquire_time.is_some() && spec.renew_time >= spec.acquire_time);
    let second = env.process("second");
    assert_keeps_leading(&first, LEASE * 2).await;
    assert!(!second.is_leading());
    let (leader, standby) = (env.request_verbs("first"), env.request_verbs("second"));
    println!("within two leases of {LEASE:?} the leader sent {leader:?}, the standby {standby:?}");
    let renewals = leader.iter().filter(|verb| *verb == "update").count();
    assert!(
        (5..=8).contains(&renewals),
        "the leader must renew after each third of the lease duration: {leader:?}"
    );
    assert!(leader.len() - renewals <= 4, "{leader:?}");
    assert!(standby.len() <= 2, "a standby must use its watch: {standby:?}");

    let started = Instant::now();
    first.leadership.resign().await;
    assert!(first.fence.check().is_err());
    let second = second.until_leading().await;
    println!("release to next leader: {:?}", started.elapsed());
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    env.until_holder(&second.identity).await;
}

#[tokio::test]
async fn creates_missing_lease_and_leads_after_its_duration() {
    let env = TestEnv::without_lease(shared().await).await;
    let started = Instant::now();
    let first = env.process("first").until_leading().await;
    assert!(started.elapsed() >= LEASE, "{:?}", started.elapsed());
    env.until_holder(&first.identity).await;
}

#[tokio::test]
async fn leader_keeps_lease_that_is_deleted_emptied_or_changed() {
    let env = TestEnv::new(shared().await).await;
    let first = env.process("first").until_leading().await;
    let second = env.process("second");
    env.leases().delete(&lease_name(CONTROLLER), &DeleteParams::default()).await.unwrap();
    assert_keeps_leading(&first, LEASE).await;
    env.until_holder(&first.identity).await;
    env.patch(json!({ "spec": { "holderIdentity": "" } })).await;
    assert_keeps_leading(&first, LEASE).await;
    env.until_holder(&first.identity).await;
    env.patch(json!({ "spec": { "leaseDurationSeconds": 1 }, "metadata": { "labels": { "team": "blue" } } }))
        .await;
    assert_keeps_leading(&first, LEASE).await;
    let lease = env.until_holder(&first.identity).await;
    assert_eq!(lease.spec.unwrap().lease_duration_seconds, Some(3));
    assert_eq!(lease.metadata.labels.unwrap()["team"], "blue");
    assert!(!second.is_leading());
}

#[tokio::test]
async fn leader_stops_when_lease_has_another_holder_and_waits_for_expiry() {
    let env = TestEnv::new(shared().await).await;
    let mut first = env.process("first").until_leading().await;
    env.patch(json!({ "spec": { "holderIdentity": "other" } })).await;
    let started = Instant::now();
    tokio::time::timeout(TIMEOUT, first.leadership.lost()).await.unwrap();
    assert!(!first.is_leading());
    println!("another holder to stopped: {:?}", started.elapsed());
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    let first = first.until_leading().await;
    assert!(started.elapsed() >= DEADLINE, "{:?}", started.elapsed());
    env.until_holder(&first.identity).await;
}

#[tokio::test]
async fn leader_stops_before_lease_expires_during_api_server_outage() {
    let cluster = cluster::isolated().await.unwrap();
    let env = TestEnv::new(&cluster).await;
    let mut first = env.process("first").until_leading().await;
    cluster.kill_component(Component::KubeApiserver).unwrap();
    let started = Instant::now();
    tokio::time::timeout(TIMEOUT, first.leadership.lost()).await.unwrap();
    assert!(!first.is_leading());
    println!("API server gone to stopped: {:?}", started.elapsed());
    assert!(started.elapsed() < LEASE, "{:?}", started.elapsed());
    cluster.start_component(Component::KubeApiserver).unwrap();
    first.until_leading().await;
    cluster.stop().unwrap();
}

/// A replica renews one Lease. When it ends, another replica leads everything after one lease duration.
#[tokio::test]
async fn one_renewal_renews_all_leases_of_a_replica() {
    let env = TestEnv::with_leases(shared().await, CONTROLLERS).await;
    let mut first = env.replica("first");
    first.until_leading_all().await;
    env.until_one_anchor().await;
    let mut second = env.replica("second");
    let mark = env.cluster.audit_mark().unwrap();
    let started = Instant::now();
    while started.elapsed() < LEASE * 3 {
        assert_eq!((first.leads(), second.leads()), (CONTROLLERS.len(), 0), "after {:?}", started.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut updates = env.updates("first", mark);
    println!("updates of {CONTROLLERS:?} within three leases of {LEASE:?}: {updates:?}");
    updates.sort_unstable();
    assert!(updates[..2] == [0, 0] && (7..=11).contains(&updates[2]), "{updates:?}");

    drop(first);
    let started = Instant::now();
    second.until_leading_all().await;
    println!("end without a release to leader of all: {:?}", started.elapsed());
    assert!(started.elapsed() >= DEADLINE && started.elapsed() < LEASE * 2, "{:?}", started.elapsed());
}

/// A candidate that ends without a release does not hold its Lease by the renewals of the others.
#[tokio::test]
async fn lease_of_an_ended_candidate_expires() {
    let env = TestEnv::with_leases(shared().await, CONTROLLERS).await;
    let mut first = env.replica("first");
    first.until_leading_all().await;
    env.until_one_anchor().await;
    let mut second = env.replica("second");
    drop(first.candidates.remove(1));
    let (leadership, _) = &mut second.candidates[1];
    tokio::time::timeout(TIMEOUT, leadership.gained()).await.unwrap().unwrap();
    assert_eq!((first.leads(), second.leads()), (2, 1));
}
