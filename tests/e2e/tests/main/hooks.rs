//! Hooks of a NamespacePlus with two managers, of which the leader is killed or frozen during a
//! call. No call is lost, repeated calls have the same key, and no call is repeated before its
//! timeout.

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

use crate::support::{Account, Manager, NAMESPACE_PLUS, PATIENCE, QUICK, TestEnv};

/// Timeout of the hooks in seconds.
const TIMEOUT: u64 = 10;
/// Time that the receiver needs for a call when its manager is lost. Longer than a failover.
const WORK: Duration = Duration::from_secs(9);
const NO_TIME: Duration = Duration::ZERO;

/// A call as observed by the receiver.
#[derive(Clone, Debug)]
struct Call {
    key: String,
    began: Instant,
    ended: Option<Instant>,
}

/// Receives calls and works for as many milliseconds as the path says, even after the client
/// disconnects.
struct Receiver {
    address: SocketAddr,
    calls: Calls,
}

type Calls = Arc<Mutex<Vec<Call>>>;

impl Receiver {
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

    /// Returns the calls by key, in the order of arrival.
    fn by_key(&self) -> BTreeMap<String, Vec<Call>> {
        let mut by_key = BTreeMap::<_, Vec<_>>::new();
        for call in self.calls.lock().unwrap().iter() {
            by_key.entry(call.key.clone()).or_default().push(call.clone());
        }
        by_key
    }

    /// Waits until a call of the NamespacePlus satisfies a predicate.
    async fn until(&self, uid: &str, what: &str, predicate: impl Fn(&Call) -> bool) {
        eventually(&format!("the call to {what}"), PATIENCE, async || {
            let calls = self.calls.lock().unwrap().clone();
            Ok(calls.iter().any(|call| call.key.starts_with(uid) && predicate(call)))
        })
        .await
        .unwrap();
    }

    /// Asserts that all calls have completed and that no call overlapped with its repetition.
    /// Returns the number of attempts of each call.
    fn assert_no_overlap(&self) -> Vec<usize> {
        let by_key = self.by_key();
        for (key, calls) in &by_key {
            for managers in calls.windows(2) {
                let ended = managers[0].ended.expect("a repeated call must have completed");
                assert!(ended <= managers[1].began, "attempts of {key} overlapped");
                println!("{key}: repeated {:?} after it completed", managers[1].began - ended);
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
    // A separate task: the task of the connection ends when the manager is killed.
    let work = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        calls.lock().unwrap()[number].ended = Some(Instant::now());
    });
    work.await.unwrap();
    StatusCode::NO_CONTENT
}

/// Two managers, one of which leads.
struct ManagerPair {
    env: TestEnv,
    home: TestNamespace,
    accounts: Vec<Account>,
    managers: Vec<Option<Manager>>,
}

impl ManagerPair {
    async fn start() -> Self {
        let env = TestEnv::complete().await;
        let home = env.cluster.namespace("hooks").await.unwrap();
        let mut managers = Self { env, home, accounts: Vec::new(), managers: vec![None, None] };
        for number in 0..2 {
            managers.accounts.push(managers.env.replica(&name(number), &["namespaceplus"]).await);
            managers.start_manager(number);
        }
        managers
    }

    fn start_manager(&mut self, number: usize) {
        let (name, instance) = (name(number), format!("--instance={}", name(number)));
        let ours = [
            "--controllers=namespaceplus",
            "--namespaceplus-http-hosts=127.0.0.1",
            "--leader-elect",
            "--log-format=json",
            instance.as_str(),
        ];
        let args = [ours.as_slice(), QUICK.as_slice()].concat();
        self.managers[number] = Some(self.env.start(&name, &self.accounts[number], &args));
    }

    fn manager(&self, number: usize) -> &Manager {
        self.managers[number].as_ref().unwrap()
    }

    /// Waits until a manager other than `before` leads, and returns its number.
    async fn until_led(&self, before: Option<usize>) -> usize {
        let before = before.map(name).unwrap_or_default();
        let holder = self.env.until_led("namespaceplus", &before).await;
        (0..2).find(|number| name(*number) == holder).expect("a manager should lead")
    }

    /// Kills the leader, waits for the failover, restarts the killed manager, and returns the new
    /// leader.
    async fn kill(&mut self, leader: usize) -> usize {
        self.managers[leader].take().unwrap().kill();
        let next = self.until_led(Some(leader)).await;
        self.start_manager(leader);
        next
    }

    /// Creates a NamespacePlus and returns its UID.
    async fn create(&self, name: &str, spec: Value) -> String {
        let object = self.env.create(&NAMESPACE_PLUS, &self.home, name, spec).await;
        object.metadata.uid.unwrap()
    }

    /// Waits until all calls are delivered. Returns the number of attempts of the first call.
    async fn until_delivered(&self, name: &str) -> u64 {
        let is_delivered = |object: &DynamicObject| {
            let conditions = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|one| one["type"] == "HooksDelivered" && one["status"] == "True")
                && object.data["status"]["hooks"].is_array()
        };
        let what = "to have its calls delivered";
        let object = self.env.until(&NAMESPACE_PLUS, &self.home, name, what, is_delivered).await;
        object.data["status"]["hooks"][0]["attempts"].as_u64().unwrap()
    }
}

fn name(number: usize) -> String {
    format!("caller-{number}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_of_killed_leader_is_repeated_after_timeout_with_same_key() {
    let (mut managers, receiver) = (ManagerPair::start().await, Receiver::start().await);
    let mut leader = managers.until_led(None).await;
    for number in 0..5 {
        managers.create(&format!("quiet-{number}"), receiver.spec(&["Created"], NO_TIME)).await;
    }
    for number in 0..5 {
        assert_eq!(managers.until_delivered(&format!("quiet-{number}")).await, 1);
    }
    assert_eq!(receiver.assert_no_overlap(), [1; 5], "two healthy managers call once");

    let uid = managers.create("at-work", receiver.spec(&["Created"], WORK)).await;
    receiver.until(&uid, "begin", |_| true).await;
    leader = managers.kill(leader).await;
    assert_eq!(managers.until_delivered("at-work").await, 2);

    for number in 0..3 {
        let name = format!("answered-{number}");
        let uid = managers.create(&name, receiver.spec(&["Created"], NO_TIME)).await;
        receiver.until(&uid, "be answered", |call| call.ended.is_some()).await;
        leader = managers.kill(leader).await;
        // The status may or may not have been written before the manager was killed.
        assert!(managers.until_delivered(&name).await <= 2);
    }
    let times = receiver.assert_no_overlap();
    assert_eq!(times.len(), 9, "no call is lost, and keys do not change");
    assert!(times.iter().all(|times| *times <= 2), "{times:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resumed_leader_makes_no_calls() {
    let (managers, receiver) = (ManagerPair::start().await, Receiver::start().await);
    let first = managers.until_led(None).await;
    let uid = managers.create("frozen", receiver.spec(&["Created", "Deleted"], WORK)).await;
    receiver.until(&uid, "begin", |_| true).await;
    managers.manager(first).signal(Signal::STOP);
    managers.until_led(Some(first)).await;
    assert_eq!(managers.until_delivered("frozen").await, 2);
    managers.manager(first).signal(Signal::CONT);
    managers.manager(first).until_logged("stopped leading").await;

    managers.env.delete(&NAMESPACE_PLUS, &managers.home, "frozen").await;
    managers.env.until_gone(&NAMESPACE_PLUS, &managers.home, "frozen").await;
    assert_eq!(
        receiver.assert_no_overlap(),
        [2, 1],
        "the second manager repeats Created; Deleted is called once"
    );
}
