//! Three replicas that are randomly killed, stopped, and frozen a hundred times while objects
//! change. In the end the state is correct, and no two replicas have led a controller at the same
//! time.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    time::{Duration, Instant},
};

use cluster::{TestNamespace, wait::eventually};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    Account, CONTROLLERS, LivePods, MEMCACHED, Manager, NAMESPACE_PLUS, PATIENCE, POD_SET, QUICK, TENANT,
    TestEnv,
};

const REPLICAS: usize = 3;
/// A PodSet that exists during the whole test.
const LASTING: &str = "lasting";
/// Maximum number of replicas of a PodSet.
const MAX_REPLICAS: u64 = 8;

/// Returns an environment variable: `ENSEMBLE_KILLS_SEED` repeats a run, `ENSEMBLE_KILLS` sets the
/// number of kills.
fn setting(name: &str, default: u64) -> u64 {
    env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
}

/// Replicas of the manager.
struct Replicas<'s> {
    env: &'s TestEnv,
    accounts: Vec<Account>,
    managers: Vec<Option<Manager>>,
    /// Frozen replicas and the time at which they resume.
    frozen: BTreeMap<usize, Instant>,
    /// Number of disruptions by kind.
    disruptions: BTreeMap<&'static str, usize>,
}

impl<'s> Replicas<'s> {
    /// Starts all replicas. None can lead before all of them know the Leases: a replica that starts
    /// alone leads every controller.
    async fn start(env: &'s TestEnv) -> Self {
        let held = json!({ "spec": { "holderIdentity": "test", "leaseDurationSeconds": 600 } });
        patch_leases(env, &held).await;
        let mut accounts = Vec::new();
        for number in 0..REPLICAS {
            accounts.push(env.replica(&format!("replica-{number}"), &CONTROLLERS).await);
        }
        let managers = (0..REPLICAS).map(|_| None).collect();
        let mut replicas =
            Self { env, accounts, managers, frozen: BTreeMap::new(), disruptions: BTreeMap::new() };
        for number in 0..REPLICAS {
            replicas.start_replica(number);
        }
        for account in &replicas.accounts {
            let read = async || Ok(has_read_leases(env, account));
            eventually("a replica to read all Leases", PATIENCE, read).await.unwrap();
        }
        let released = json!({
            "metadata": { "annotations": { "ensemble.example.com/released": "test" } },
            "spec": { "holderIdentity": "" },
        });
        patch_leases(env, &released).await;
        replicas
    }

    fn start_replica(&mut self, number: usize) {
        let name = format!("replica-{number}");
        let instance = format!("--instance={name}");
        let args = [&["--leader-elect", instance.as_str()], QUICK.as_slice()].concat();
        self.managers[number] = Some(self.env.start(&name, &self.accounts[number], &args));
    }

    /// Disrupts one replica.
    async fn disrupt(&mut self, random: &mut fastrand::Rng) {
        self.resume_expired(Instant::now());
        let number = random.usize(0..REPLICAS);
        match random.u8(0..3) {
            0 => {
                self.frozen.remove(&number);
                self.managers[number].take().unwrap().kill();
                self.start_replica(number);
                *self.disruptions.entry("killed").or_default() += 1;
            }
            1 if !self.frozen.contains_key(&number) => {
                self.managers[number].take().unwrap().stop().await;
                self.start_replica(number);
                *self.disruptions.entry("stopped").or_default() += 1;
            }
            _ => {
                self.managers[number].as_ref().unwrap().signal(Signal::STOP);
                let until = Instant::now() + Duration::from_millis(random.u64(500..6_000));
                self.frozen.insert(number, until);
                *self.disruptions.entry("frozen").or_default() += 1;
            }
        }
    }

    /// Resumes the replicas whose freeze has expired.
    fn resume_expired(&mut self, now: Instant) {
        for (number, _) in self.frozen.extract_if(.., |_, until| *until <= now) {
            self.managers[number].as_ref().unwrap().signal(Signal::CONT);
        }
    }
}

/// Desired state of the objects.
struct DesiredState<'s> {
    env: &'s TestEnv,
    home: &'s TestNamespace,
    /// Namespace of the other Pods, so that the Pods of the lasting PodSet can be counted.
    spare: &'s TestNamespace,
    /// Number of replicas of each PodSet.
    sets: BTreeMap<String, u64>,
    size: u64,
    has_plus: bool,
    joined: BTreeSet<String>,
    made: u64,
}

impl<'s> DesiredState<'s> {
    async fn begin(env: &'s TestEnv, home: &'s TestNamespace, spare: &'s TestNamespace) -> Self {
        env.create(&MEMCACHED, spare, "cache", json!({ "size": 1 })).await;
        let owners = json!([{ "kind": "User", "name": "alice" }]);
        env.create(&TENANT, "", "oil", json!({ "owners": owners })).await;
        let mut wanted = Self {
            env,
            home,
            spare,
            sets: BTreeMap::new(),
            size: 1,
            has_plus: false,
            joined: BTreeSet::new(),
            made: 0,
        };
        wanted.set(LASTING, 2).await;
        wanted
    }

    fn namespace_of(&self, name: &str) -> &'s TestNamespace {
        if name == LASTING { self.home } else { self.spare }
    }

    async fn set(&mut self, name: &str, replicas: u64) {
        let spec = json!({ "replicas": replicas });
        if self.sets.insert(name.to_owned(), replicas).is_some() {
            self.env.change(&POD_SET, self.namespace_of(name), name, spec).await;
        } else {
            self.env.create(&POD_SET, self.namespace_of(name), name, spec).await;
        }
    }

    /// Changes one object.
    async fn change(&mut self, random: &mut fastrand::Rng) {
        self.made += 1;
        match random.u8(0..10) {
            0..4 => self.set(LASTING, random.u64(1..=MAX_REPLICAS)).await,
            4 => self.set(&format!("extra-{}", self.made), random.u64(1..=MAX_REPLICAS)).await,
            5 => {
                let extra = self.sets.keys().find(|name| name.starts_with("extra")).cloned();
                if let Some(name) = extra {
                    self.env.delete(&POD_SET, self.spare, &name).await;
                    self.sets.remove(&name);
                }
            }
            6 | 7 => {
                self.size = random.u64(1..=5);
                self.env.change(&MEMCACHED, self.spare, "cache", json!({ "size": self.size })).await;
            }
            8 => self.toggle_namespaceplus().await,
            _ => self.toggle_namespace().await,
        }
    }

    async fn toggle_namespaceplus(&mut self) {
        let name = format!("{}-plus", self.home.name());
        if self.has_plus {
            self.env.delete(&NAMESPACE_PLUS, self.home, &name).await;
        } else {
            // All managers may be frozen until the next disruption. The object then changes in
            // another turn.
            let plus = self.env.api(&NAMESPACE_PLUS, self.home).await.get_opt(&name).await.unwrap();
            if plus.is_some() {
                return;
            }
            self.env.create(&NAMESPACE_PLUS, self.home, &name, json!({ "deletionPolicy": "Delete" })).await;
        }
        self.has_plus = !self.has_plus;
    }

    async fn toggle_namespace(&mut self) {
        if self.joined.len() < 3 {
            let name = format!("{}-{}", self.home.name(), self.made);
            self.env.join("oil", &name).await;
            self.joined.insert(name);
        } else if let Some(name) = self.joined.pop_first() {
            self.env.kubectl(&["delete", "namespace", &name, "--wait=false"]).await.unwrap();
        }
    }

    /// Waits until the actual state equals the desired state.
    async fn assert_converged(&self) {
        let env = self.env;
        for (name, replicas) in &self.sets {
            let set = env.until_ready(&POD_SET, self.namespace_of(name), name).await;
            assert_eq!(set.data["status"]["readyReplicas"].as_u64(), Some(*replicas), "{name}");
            env.until_count(
                &["pods", "--namespace", self.namespace_of(name), "--selector", &format!("app={name}")],
                usize::try_from(*replicas).unwrap(),
            )
            .await;
        }
        let cache = env.until_ready(&MEMCACHED, self.spare, "cache").await;
        assert_eq!(cache.data["status"]["nodes"].as_array().map(Vec::len), usize::try_from(self.size).ok());
        let plus = format!("{}-plus", self.home.name());
        if self.has_plus {
            env.until_ready(&NAMESPACE_PLUS, self.home, &plus).await;
        } else {
            env.until_gone(&NAMESPACE_PLUS, self.home, &plus).await;
        }
        env.until_tenant_ready("oil", self.joined.len().try_into().unwrap()).await;
    }
}

#[tokio::test]
async fn replicas_survive_random_kills_without_two_leaders() {
    let (seed, kills) = (setting("ENSEMBLE_KILLS_SEED", 1), setting("ENSEMBLE_KILLS", 100));
    println!("ENSEMBLE_KILLS_SEED={seed} ENSEMBLE_KILLS={kills}");
    let mut random = fastrand::Rng::with_seed(seed);
    let env = TestEnv::complete().await;
    let began = env.cluster.audit_mark().unwrap();
    let home = env.cluster.namespace("kills").await.unwrap();
    let spare = env.cluster.namespace("spare").await.unwrap();
    let client = env.cluster.client().await.unwrap();
    let pods = LivePods::follow(Api::<Pod>::namespaced(client.clone(), &home));
    let mut replicas = Replicas::start(&env).await;
    assert_distributed(&env).await;
    let mut wanted = DesiredState::begin(&env, &home, &spare).await;
    let lasting = [("deployment", "cache"), ("service", "cache")];
    env.until_ready(&MEMCACHED, &spare, "cache").await;
    let before = uids(&env, &spare, &lasting).await;

    let at = Instant::now();
    for _ in 0..kills {
        wanted.change(&mut random).await;
        tokio::time::sleep(Duration::from_millis(random.u64(0..800))).await;
        replicas.disrupt(&mut random).await;
    }
    let took = at.elapsed();
    replicas.resume_expired(Instant::now() + Duration::from_mins(1));
    wanted.assert_converged().await;
    assert_eq!(uids(&env, &spare, &lasting).await, before, "recreated");
    let most = pods.assert_live(usize::try_from(wanted.sets[LASTING]).unwrap()).await;
    assert!(u64::try_from(most).unwrap() <= MAX_REPLICAS, "{most} Pods were alive at the same time");
    let accounts: Vec<_> = replicas.accounts.iter().collect();
    let (writes, hands) = env.assert_only_holders_wrote(&accounts, began);
    println!(
        "{kills} disruptions in {took:?}: {:?}; {writes} writes, {hands} failovers, at most {most} Pods",
        replicas.disruptions
    );
    assert!(hands > usize::try_from(kills / 10).unwrap(), "{hands} hand-overs");
}

async fn patch_leases(env: &TestEnv, patch: &Value) {
    let leases = env.leases().await;
    for controller in CONTROLLERS {
        let name = format!("ensemble-{controller}");
        leases.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
}

fn has_read_leases(env: &TestEnv, account: &Account) -> bool {
    let reads = env.requests(account).filter(|entry| entry.resource == "leases" && entry.verb == "get");
    let names: BTreeSet<_> = reads.entries.into_iter().map(|entry| entry.name).collect();
    names.len() == CONTROLLERS.len()
}

/// Asserts that the controllers are distributed over three replicas.
async fn assert_distributed(env: &TestEnv) {
    let holders = eventually("all controllers to be led", PATIENCE, async || {
        let holders = env.holders().await;
        Ok(if holders.len() == CONTROLLERS.len() { Ok(holders) } else { Err(holders) })
    });
    let holders = holders.await.unwrap();
    println!("shared: {holders:?}");
    let leaders: BTreeSet<_> = holders.values().collect();
    assert!(leaders.len() > 1, "{holders:?}");
}

async fn uids(env: &TestEnv, namespace: &str, objects: &[(&str, &str)]) -> Vec<Value> {
    let mut uids = Vec::new();
    for (kind, name) in objects {
        let object = env.read(&["get", kind, name, "--namespace", namespace]).await;
        uids.push(object["metadata"]["uid"].clone());
    }
    uids
}
