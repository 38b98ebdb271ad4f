//! Two managers share the hooks of a NamespacePlus, and the one that calls is killed or frozen. No call is lost, each has
//! the same key whenever it is made, and none is ever made while it is still worked on.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    routing::post,
};
use cluster::{TestNamespace, wait::eventually};
use kube::api::DynamicObject;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Account, Manager, NAMESPACE_PLUS, PATIENCE, QUICK, Stage};

/// How long hooks wait for an answer, in seconds.
const TIMEOUT: u64 = 10;
/// How long the other system works on a call at which its manager is lost: longer than it takes another to lead.
const WORK: Duration = Duration::from_secs(9);
const NO_TIME: Duration = Duration::ZERO;

/// A call, as the other system saw it.
#[derive(Clone, Debug)]
struct Call {
    key: String,
    began: Instant,
    ended: Option<Instant>,
}

/// A system that works on each call for as many milliseconds as the path says, also when nobody waits for it any more.
struct System {
    address: SocketAddr,
    calls: Calls,
}

type Calls = Arc<Mutex<Vec<Call>>>;

impl System {
    async fn start() -> Self {
        let calls = Calls::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/{milliseconds}", post(work)).with_state(calls.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, calls }
    }

    fn spec(&self, on: &[&str], work: Duration) -> Value {
        let url = format!("http://{}/{}", self.address, work.as_millis());
        json!({ "hooks": [{ "name": "pipeline", "on": on, "url": url, "timeoutSeconds": TIMEOUT }] })
    }

    /// The calls by their keys, in the order in which they came.
    fn by_key(&self) -> BTreeMap<String, Vec<Call>> {
        let mut by_key = BTreeMap::<_, Vec<_>>::new();
        for call in self.calls.lock().unwrap().iter() {
            by_key.entry(call.key.clone()).or_default().push(call.clone());
        }
        by_key
    }

    /// Waits until a NamespacePlus' call is so.
    async fn until(&self, uid: &str, what: &str, is_so: impl Fn(&Call) -> bool) {
        eventually(&format!("the call to {what}"), PATIENCE, async || {
            let calls = self.calls.lock().unwrap().clone();
            Ok(calls.iter().any(|call| call.key.starts_with(uid) && is_so(call)))
        })
        .await
        .unwrap();
    }

    /// Holds all calls to have come to their end, and none to have been worked on twice at once. Returns how often each
    /// came.
    fn assert_never_twice_at_once(&self) -> Vec<usize> {
        let by_key = self.by_key();
        for (key, calls) in &by_key {
            for pair in calls.windows(2) {
                let ended = pair[0].ended.expect("a call that is made again has come to its end");
                assert!(ended <= pair[1].began, "{key} was worked on twice at once");
                println!("{key}: made again {:?} after it had ended", pair[1].began - ended);
            }
        }
        by_key.values().map(Vec::len).collect()
    }
}

async fn work(State(calls): State<Calls>, Path(milliseconds): Path<u64>, headers: HeaderMap) -> StatusCode {
    let key = headers["idempotency-key"].to_str().unwrap().to_owned();
    let number = {
        let mut calls = calls.lock().unwrap();
        calls.push(Call { key, began: Instant::now(), ended: None });
        calls.len() - 1
    };
    // A task of its own, for that of the connection ends when the manager dies.
    let work = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        calls.lock().unwrap()[number].ended = Some(Instant::now());
    });
    work.await.unwrap();
    StatusCode::NO_CONTENT
}

/// Two managers of which one leads.
struct Pair {
    stage: Stage,
    home: TestNamespace,
    accounts: Vec<Account>,
    managers: Vec<Option<Manager>>,
}

impl Pair {
    async fn start() -> Self {
        let stage = Stage::complete().await;
        let home = stage.cluster.namespace("hooks").await.unwrap();
        let mut pair = Self { stage, home, accounts: Vec::new(), managers: vec![None, None] };
        for number in 0..2 {
            pair.accounts.push(pair.stage.replica(&name(number), &["namespaceplus"]).await);
            pair.bring_up(number);
        }
        pair
    }

    fn bring_up(&mut self, number: usize) {
        let (name, instance) = (name(number), format!("--instance={}", name(number)));
        let ours = [
            "--controllers=namespaceplus",
            "--namespaceplus-http-hosts=127.0.0.1",
            "--leader-elect",
            "--log-format=json",
            instance.as_str(),
        ];
        let args = [ours.as_slice(), QUICK.as_slice()].concat();
        self.managers[number] = Some(self.stage.start(&name, &self.accounts[number], &args));
    }

    fn manager(&self, number: usize) -> &Manager {
        self.managers[number].as_ref().unwrap()
    }

    /// Waits until another than `before` leads. Returns which.
    async fn until_led(&self, before: Option<usize>) -> usize {
        let before = before.map(name).unwrap_or_default();
        let holder = self.stage.until_led("namespaceplus", &before).await;
        (0..2).find(|number| name(*number) == holder).expect("one of ours should lead")
    }

    /// Kills the leader, and brings it up again when the other leads. Returns that.
    async fn kill(&mut self, leader: usize) -> usize {
        self.managers[leader].take().unwrap().kill();
        let next = self.until_led(Some(leader)).await;
        self.bring_up(leader);
        next
    }

    /// Creates a NamespacePlus, and returns its UID.
    async fn create(&self, name: &str, spec: Value) -> String {
        let object = self.stage.create(&NAMESPACE_PLUS, &self.home, name, spec).await;
        object.metadata.uid.unwrap()
    }

    /// Waits until all calls that were due have been taken. Returns how often the first of them was tried.
    async fn until_delivered(&self, name: &str) -> u64 {
        let is_delivered = |object: &DynamicObject| {
            let conditions = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|one| one["type"] == "HooksDelivered" && one["status"] == "True")
                && object.data["status"]["hooks"].is_array()
        };
        let what = "to have its calls taken";
        let object = self.stage.until(&NAMESPACE_PLUS, &self.home, name, what, is_delivered).await;
        object.data["status"]["hooks"][0]["attempts"].as_u64().unwrap()
    }
}

fn name(number: usize) -> String {
    format!("caller-{number}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_of_a_leader_that_was_killed_is_made_again_after_its_time_and_under_its_key() {
    let (mut pair, system) = (Pair::start().await, System::start().await);
    let mut leader = pair.until_led(None).await;
    for number in 0..5 {
        pair.create(&format!("quiet-{number}"), system.spec(&["Created"], NO_TIME)).await;
    }
    for number in 0..5 {
        assert_eq!(pair.until_delivered(&format!("quiet-{number}")).await, 1);
    }
    assert_eq!(system.assert_never_twice_at_once(), [1; 5], "two managers in peace call once");

    let uid = pair.create("at-work", system.spec(&["Created"], WORK)).await;
    system.until(&uid, "be worked on", |_| true).await;
    leader = pair.kill(leader).await;
    assert_eq!(pair.until_delivered("at-work").await, 2);

    for number in 0..3 {
        let name = format!("answered-{number}");
        let uid = pair.create(&name, system.spec(&["Created"], NO_TIME)).await;
        system.until(&uid, "be answered", |call| call.ended.is_some()).await;
        leader = pair.kill(leader).await;
        // The status may have been written before the end, or not.
        assert!(pair.until_delivered(&name).await <= 2);
    }
    let times = system.assert_never_twice_at_once();
    assert_eq!(times.len(), 9, "no call is lost, and none has another key");
    assert!(times.iter().all(|times| *times <= 2), "{times:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_was_frozen_in_a_call_calls_nobody_when_it_thaws() {
    let (pair, system) = (Pair::start().await, System::start().await);
    let first = pair.until_led(None).await;
    let uid = pair.create("frozen", system.spec(&["Created", "Deleted"], WORK)).await;
    system.until(&uid, "be worked on", |_| true).await;
    pair.manager(first).signal(Signal::STOP);
    pair.until_led(Some(first)).await;
    assert_eq!(pair.until_delivered("frozen").await, 2);
    pair.manager(first).signal(Signal::CONT);
    pair.manager(first).until_logged("stopped leading").await;

    pair.stage.delete(&NAMESPACE_PLUS, &pair.home, "frozen").await;
    pair.stage.until_gone(&NAMESPACE_PLUS, &pair.home, "frozen").await;
    assert_eq!(system.assert_never_twice_at_once(), [2, 1], "Created again by the second, Deleted once");
}
