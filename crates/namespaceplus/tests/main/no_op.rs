//! A reconcile without a change writes nothing.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use cluster::wait::eventually;
use harness::status::{assert_repairs, edits};
use k8s_openapi::{api::events::v1::Event, jiff::Timestamp};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use namespaceplus::{NamespacePlus, NamespacePlusController};
use operator_core::{
    Controller, Environment,
    metrics::{Metrics, ReconcileResult},
    register,
};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::support::{TIMEOUT, TestEnv, is_ready, namespace_plus, version};

/// Detects when a controller has reconciled all objects that existed when it started.
#[derive(Default)]
struct ReconcileCounter {
    taken: AtomicUsize,
    ended: AtomicUsize,
    found: AtomicUsize,
    left: OnceLock<Box<dyn Fn() -> usize + Send + Sync>>,
}

impl Metrics for ReconcileCounter {
    fn queue(&self, _: &'static str, depth: Box<dyn Fn() -> usize + Send + Sync>) {
        let _ = self.left.set(depth);
    }

    fn dequeued(&self, _: &'static str, _: Duration) {
        let taken = self.taken.fetch_add(1, SeqCst) + 1;
        if self.left.get().is_some_and(|left| left() == 0) {
            let _ = self.found.compare_exchange(0, taken, SeqCst, SeqCst);
        }
    }

    fn reconciled(&self, _: &'static str, _: ReconcileResult, _: Duration) {
        self.ended.fetch_add(1, SeqCst);
    }
}

impl ReconcileCounter {
    fn are_over(&self) -> bool {
        let found = self.found.load(SeqCst);
        found > 0 && self.ended.load(SeqCst) >= found
    }
}

/// A controller that runs with admin permissions.
struct RunningController {
    environment: Environment,
    task: JoinHandle<()>,
}

impl RunningController {
    fn start(client: &Client, counter: &Arc<ReconcileCounter>) -> Self {
        let environment = Environment::with_metrics(client.clone(), counter.clone());
        let own = environment.clone();
        let task = tokio::spawn(async move { register::<NamespacePlusController>().run(&own).await });
        Self { environment, task }
    }

    async fn stop(self) {
        self.environment.stop.cancel();
        self.task.await.unwrap();
    }
}

/// Needs its own cluster, because the controller reconciles the objects of all tests.
#[tokio::test]
async fn new_manager_writes_nothing_without_changes() {
    let cluster = cluster::isolated().await.unwrap();
    cluster.install_crds(&NamespacePlusController::crds()).await.unwrap();
    let client = cluster.client().await.unwrap();
    let all = Api::<NamespacePlus>::default_namespaced(client.clone());
    let spec = json!({
        "labels": {"team": "blue"},
        "quota": {"requests.memory": "1024Mi", "requests.cpu": 1.5, "pods": 10},
        "limitRange": {"limits": [
            {"type": "Container", "max": {"cpu": "1000m"}, "min": {"memory": "0.5Gi"}, "default": {"memory": "1Gi"}},
            {"type": "PersistentVolumeClaim", "max": {"storage": "1024Gi"}}]},
        "networkPolicies": [
            {"name": "all", "spec": {"ingress": [{}], "egress": []}},
            {"name": "some", "spec": {"policyTypes": ["Egress"], "egress": [{"ports": [{"port": 443}, {"port": "dns", "protocol": "UDP"}],
                "to": [{"namespaceSelector": {"matchLabels": {}}}, {"ipBlock": {"cidr": "10.0.0.0/8", "except": []}}]}]}}],
        "podDisruptionBudgets": [{"name": "a", "spec": {"maxUnavailable": "50%", "selector": {}}}, {"name": "b", "spec": {}}],
        "roleBindings": [{"name": "r", "clusterRole": "view", "subjects": [
            {"kind": "User", "name": "ada", "apiGroup": "rbac.authorization.k8s.io"}, {"kind": "Group", "name": "blue"},
            {"kind": "ServiceAccount", "name": "s", "namespace": "ci", "apiGroup": ""}]}],
    });
    let first = RunningController::start(&client, &Arc::default());
    all.create(&PostParams::default(), &namespace_plus("team", spec)).await.unwrap();
    let before = eventually("the NamespacePlus to be ready", TIMEOUT, async || {
        let object = all.get("team").await?;
        Ok(if is_ready(&object) { Ok(version(&object)) } else { Err(object.status) })
    })
    .await
    .unwrap();
    // Events are sent in the background, so this one may be sent after the status.
    let events = Api::<Event>::namespaced(client.clone(), "default");
    eventually("the Event of the creation", TIMEOUT, async || {
        let events = events.list(&ListParams::default()).await?;
        Ok(events.iter().any(|event| event.reason.as_deref() == Some("Created")))
    })
    .await
    .unwrap();
    first.stop().await;

    let mark = cluster.audit_mark().unwrap();
    let counter = Arc::new(ReconcileCounter::default());
    let second = RunningController::start(&client, &counter);
    eventually("all objects to be reconciled", TIMEOUT, async || Ok(counter.are_over())).await.unwrap();
    second.stop().await;
    let writes = cluster.audit_since(mark).unwrap().by_user_agent("ensemble/").writes();
    assert_eq!(writes.entries, []);
    assert_eq!(version(&all.get("team").await.unwrap()), before);
    cluster.stop().unwrap();
}

#[tokio::test]
async fn writes_each_object_once() {
    let env = TestEnv::new().await;
    env.ready(
        json!({"networkPolicies": [{"name": "net", "spec": {"ingress": [{"ports": [{"port": 80}]}]}}]}),
    )
    .await;
    let written = || {
        let writes = env.harness.requests().unwrap().writes();
        let writes = writes.filter(|entry| entry.name == env.name || entry.namespace == env.name);
        let mut written: Vec<_> =
            writes.entries.iter().map(|entry| format!("{} {}", entry.verb, entry.resource)).collect();
        written.sort();
        written
    };
    // The audit log may lag behind the watch.
    let is_logged = async || Ok(written().contains(&"update namespacepluses".to_owned()));
    eventually("the audit log to contain the status write", TIMEOUT, is_logged).await.unwrap();
    assert_eq!(
        written(),
        [
            "create namespaces",
            "create networkpolicies",
            "create resourcequotas",
            "patch namespacepluses",
            "update namespacepluses",
        ],
        "the patch adds the finalizer, and the update writes the status"
    );
}

#[tokio::test]
async fn repairs_a_status_that_was_changed_by_hand_and_then_writes_nothing() {
    let env = TestEnv::new().await;
    env.ready(json!({ "quota": { "pods": 10 } })).await;
    // The audit log has a request some time after its response.
    let ready = Timestamp::now();
    let edits = edits("/status/namespace", json!("elsewhere"));
    assert_repairs(&env.all(), &env.name, &edits).await.unwrap();
    TestEnv::new().await.ready(json!({})).await;
    let of_it = |name: &str, namespace: &str| name == env.name || namespace == env.name;
    let writes = env.harness.requests().unwrap().writes().filter(|entry| {
        entry.time > ready && entry.resource != "events" && of_it(&entry.name, &entry.namespace)
    });
    assert_eq!(writes.entries.len(), edits.len(), "{writes:?}");
}
