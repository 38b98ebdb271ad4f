//! Three replicas that are killed, ended and frozen a hundred times while objects change. In the end everything is as it
//! should be, and no controller was ever two replicas' at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    time::{Duration, Instant},
};

use cluster::{TestNamespace, wait::eventually};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    Account, LivePods, MEMCACHED, Manager, NAMESPACE_PLUS, PATIENCE, POD_SET, QUICK, Stage, TENANT,
};

const CONTROLLERS: [&str; 5] = ["capsuleconfiguration", "memcached", "namespaceplus", "podset", "tenant"];
const REPLICAS: usize = 3;
/// The PodSet that is there all the time.
const LASTING: &str = "lasting";
/// The most pods that a PodSet is ever asked for.
const MOST: u64 = 8;

/// What is random may be repeated: `ENSEMBLE_KILLS_SEED`. How many: `ENSEMBLE_KILLS`.
fn setting(name: &str, default: u64) -> u64 {
    env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
}

/// The managers.
struct Mortals<'s> {
    stage: &'s Stage,
    accounts: Vec<Account>,
    managers: Vec<Option<Manager>>,
    /// Those that are frozen, and until when.
    frozen: BTreeMap<usize, Instant>,
    /// How often which kind of end came.
    ends: BTreeMap<&'static str, usize>,
}

impl<'s> Mortals<'s> {
    async fn start(stage: &'s Stage) -> Self {
        let mut accounts = Vec::new();
        for number in 0..REPLICAS {
            accounts.push(stage.replica(&format!("mortal-{number}"), &CONTROLLERS).await);
        }
        let managers = (0..REPLICAS).map(|_| None).collect();
        let mut mortals = Self { stage, accounts, managers, frozen: BTreeMap::new(), ends: BTreeMap::new() };
        for number in 0..REPLICAS {
            mortals.bring_up(number);
        }
        mortals
    }

    fn bring_up(&mut self, number: usize) {
        let name = format!("mortal-{number}");
        let instance = format!("--instance={name}");
        let args = [&["--leader-elect", instance.as_str()], QUICK.as_slice()].concat();
        self.managers[number] = Some(self.stage.start(&name, &self.accounts[number], &args));
    }

    /// One end of one replica.
    async fn strike(&mut self, random: &mut fastrand::Rng) {
        self.thaw(Instant::now());
        let number = random.usize(0..REPLICAS);
        match random.u8(0..3) {
            0 => {
                self.frozen.remove(&number);
                self.managers[number].take().unwrap().kill();
                self.bring_up(number);
                *self.ends.entry("killed").or_default() += 1;
            }
            1 if !self.frozen.contains_key(&number) => {
                self.managers[number].take().unwrap().ask_to_end().await;
                self.bring_up(number);
                *self.ends.entry("ended").or_default() += 1;
            }
            _ => {
                self.managers[number].as_ref().unwrap().signal(Signal::STOP);
                let until = Instant::now() + Duration::from_millis(random.u64(500..6_000));
                self.frozen.insert(number, until);
                *self.ends.entry("frozen").or_default() += 1;
            }
        }
    }

    /// Lets those go on whose time has come.
    fn thaw(&mut self, now: Instant) {
        for (number, _) in self.frozen.extract_if(.., |_, until| *until <= now) {
            self.managers[number].as_ref().unwrap().signal(Signal::CONT);
        }
    }
}

/// What there should be.
struct Wanted<'s> {
    stage: &'s Stage,
    home: &'s TestNamespace,
    /// For what else has pods, so that those of the PodSet that lasts can be counted.
    spare: &'s TestNamespace,
    /// The replicas of each PodSet.
    sets: BTreeMap<String, u64>,
    size: u64,
    has_plus: bool,
    joined: BTreeSet<String>,
    made: u64,
}

impl<'s> Wanted<'s> {
    async fn begin(stage: &'s Stage, home: &'s TestNamespace, spare: &'s TestNamespace) -> Self {
        stage.create(&MEMCACHED, spare, "cache", json!({ "size": 1 })).await;
        let owners = json!([{ "kind": "User", "name": "alice" }]);
        stage.create(&TENANT, "", "mortal", json!({ "owners": owners })).await;
        let mut wanted = Self {
            stage,
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

    fn place(&self, name: &str) -> &'s TestNamespace {
        if name == LASTING { self.home } else { self.spare }
    }

    async fn set(&mut self, name: &str, replicas: u64) {
        let spec = json!({ "replicas": replicas });
        if self.sets.insert(name.to_owned(), replicas).is_some() {
            self.stage.change(&POD_SET, self.place(name), name, spec).await;
        } else {
            self.stage.create(&POD_SET, self.place(name), name, spec).await;
        }
    }

    /// One change of one object.
    async fn change(&mut self, random: &mut fastrand::Rng) {
        self.made += 1;
        match random.u8(0..10) {
            0..4 => self.set(LASTING, random.u64(1..=MOST)).await,
            4 => self.set(&format!("extra-{}", self.made), random.u64(1..=MOST)).await,
            5 => {
                let extra = self.sets.keys().find(|name| name.starts_with("extra")).cloned();
                if let Some(name) = extra {
                    self.stage.delete(&POD_SET, self.spare, &name).await;
                    self.sets.remove(&name);
                }
            }
            6 | 7 => {
                self.size = random.u64(1..=5);
                self.stage.change(&MEMCACHED, self.spare, "cache", json!({ "size": self.size })).await;
            }
            8 => self.turn_plus().await,
            _ => self.turn_namespace().await,
        }
    }

    async fn turn_plus(&mut self) {
        let name = format!("{}-plus", self.home.name());
        if self.has_plus {
            self.stage.delete(&NAMESPACE_PLUS, self.home, &name).await;
        } else {
            // All managers may be frozen, and thaw only at the next strike: then it is for another turn.
            let plus = self.stage.api(&NAMESPACE_PLUS, self.home).await.get_opt(&name).await.unwrap();
            if plus.is_some() {
                return;
            }
            self.stage.create(&NAMESPACE_PLUS, self.home, &name, json!({ "deletionPolicy": "Delete" })).await;
        }
        self.has_plus = !self.has_plus;
    }

    async fn turn_namespace(&mut self) {
        if self.joined.len() < 3 {
            let name = format!("{}-{}", self.home.name(), self.made);
            self.stage.join("mortal", &name).await;
            self.joined.insert(name);
        } else if let Some(name) = self.joined.pop_first() {
            self.stage.kubectl(&["delete", "namespace", &name, "--wait=false"]).await.unwrap();
        }
    }

    /// Waits until everything is as wanted, and holds it to that.
    async fn assert_true(&self) {
        let stage = self.stage;
        for (name, replicas) in &self.sets {
            let set = stage.until_settled(&POD_SET, self.place(name), name).await;
            assert_eq!(set.data["status"]["readyReplicas"].as_u64(), Some(*replicas), "{name}");
            stage
                .until_count(
                    &["pods", "--namespace", self.place(name), "--selector", &format!("app={name}")],
                    usize::try_from(*replicas).unwrap(),
                )
                .await;
        }
        let cache = stage.until_settled(&MEMCACHED, self.spare, "cache").await;
        assert_eq!(cache.data["status"]["nodes"].as_array().map(Vec::len), usize::try_from(self.size).ok());
        let plus = format!("{}-plus", self.home.name());
        if self.has_plus {
            stage.until_settled(&NAMESPACE_PLUS, self.home, &plus).await;
        } else {
            stage.until_gone(&NAMESPACE_PLUS, self.home, &plus).await;
        }
        stage.until_joined("mortal", self.joined.len().try_into().unwrap()).await;
    }
}

#[tokio::test]
async fn three_replicas_survive_a_hundred_kills_and_never_do_two_lead() {
    let (seed, kills) = (setting("ENSEMBLE_KILLS_SEED", 1), setting("ENSEMBLE_KILLS", 100));
    println!("ENSEMBLE_KILLS_SEED={seed} ENSEMBLE_KILLS={kills}");
    let mut random = fastrand::Rng::with_seed(seed);
    let stage = Stage::complete().await;
    let began = stage.cluster.audit_mark().unwrap();
    let home = stage.cluster.namespace("kills").await.unwrap();
    let spare = stage.cluster.namespace("spare").await.unwrap();
    let client = stage.cluster.client().await.unwrap();
    let pods = LivePods::follow(Api::<Pod>::namespaced(client.clone(), &home));
    let mut mortals = Mortals::start(&stage).await;
    assert_shared(&stage).await;
    let mut wanted = Wanted::begin(&stage, &home, &spare).await;
    let lasting = [("deployment", "cache"), ("service", "cache")];
    stage.until_settled(&MEMCACHED, &spare, "cache").await;
    let before = uids(&stage, &spare, &lasting).await;

    let at = Instant::now();
    for _ in 0..kills {
        wanted.change(&mut random).await;
        tokio::time::sleep(Duration::from_millis(random.u64(0..800))).await;
        mortals.strike(&mut random).await;
    }
    let took = at.elapsed();
    mortals.thaw(Instant::now() + Duration::from_mins(1));
    wanted.assert_true().await;
    assert_eq!(uids(&stage, &spare, &lasting).await, before, "made anew");
    let most = pods.assert_live(usize::try_from(wanted.sets[LASTING]).unwrap()).await;
    assert!(u64::try_from(most).unwrap() <= MOST, "{most} pods lived at a time");
    let accounts: Vec<_> = mortals.accounts.iter().collect();
    let (writes, hands) = stage.assert_only_holders_wrote(&accounts, began);
    println!(
        "{kills} strikes in {took:?}: {:?}; {writes} writes, {hands} hand-overs, at most {most} pods",
        mortals.ends
    );
    assert!(hands > usize::try_from(kills / 10).unwrap(), "{hands} hand-overs");
}

/// Three replicas share the controllers between them.
async fn assert_shared(stage: &Stage) {
    let holders = eventually("all controllers to be led", PATIENCE, async || {
        let holders = stage.holders().await;
        Ok(if holders.len() == CONTROLLERS.len() { Ok(holders) } else { Err(holders) })
    });
    let holders = holders.await.unwrap();
    println!("shared: {holders:?}");
    let leaders: BTreeSet<_> = holders.values().collect();
    assert!(leaders.len() > 1, "{holders:?}");
}

async fn uids(stage: &Stage, namespace: &str, objects: &[(&str, &str)]) -> Vec<Value> {
    let mut uids = Vec::new();
    for (kind, name) in objects {
        let object = stage.read(&["get", kind, name, "--namespace", namespace]).await;
        uids.push(object["metadata"]["uid"].clone());
    }
    uids
}
