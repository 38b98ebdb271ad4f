//! Nothing is written when nothing changed.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use cluster::wait::eventually;
use namespaceplus::NamespacePlusController;
use operator_core::{
    Environment,
    metrics::{Ended, Metrics},
    register,
};
use serde_json::json;

use crate::support::{PATIENCE, World, version};

/// Notices when a controller has visited all that it found when it started.
#[derive(Default)]
struct Visits {
    taken: AtomicUsize,
    ended: AtomicUsize,
    found: AtomicUsize,
    left: OnceLock<Box<dyn Fn() -> usize + Send + Sync>>,
}

impl Metrics for Visits {
    fn queue(&self, _: &'static str, depth: Box<dyn Fn() -> usize + Send + Sync>) {
        let _ = self.left.set(depth);
    }

    fn dequeued(&self, _: &'static str, _: Duration) {
        let taken = self.taken.fetch_add(1, SeqCst) + 1;
        if self.left.get().is_some_and(|left| left() == 0) {
            let _ = self.found.compare_exchange(0, taken, SeqCst, SeqCst);
        }
    }

    fn reconciled(&self, _: &'static str, _: Ended, _: Duration) {
        self.ended.fetch_add(1, SeqCst);
    }
}

impl Visits {
    fn are_over(&self) -> bool {
        let found = self.found.load(SeqCst);
        found > 0 && self.ended.load(SeqCst) >= found
    }
}

#[tokio::test]
async fn a_new_instance_finds_everything_in_order_and_writes_nothing() {
    let world = World::new().await;
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
    let before = version(&world.ready(spec).await);
    let cluster = world.harness.cluster;
    let mark = cluster.audit_mark().unwrap();
    let visits = Arc::new(Visits::default());
    let another = Environment { metrics: visits.clone(), ..Environment::new(world.client.clone()) };
    let running = another.clone();
    let running = tokio::spawn(async move { register::<NamespacePlusController>().run(&running).await });
    eventually("everything to be visited", PATIENCE, async || Ok(visits.are_over())).await.unwrap();
    another.stop.cancel();
    running.await.unwrap();
    let writes = cluster.audit_since(mark).unwrap().by_user_agent("ensemble/").writes();
    let writes = writes.filter(|entry| entry.name == world.name || entry.namespace == world.name);
    assert_eq!(writes.entries, []);
    assert_eq!(version(&world.all().get(&world.name).await.unwrap()), before);
}

#[tokio::test]
async fn each_object_is_written_once() {
    let world = World::new().await;
    world
        .ready(
            json!({"networkPolicies": [{"name": "net", "spec": {"ingress": [{"ports": [{"port": 80}]}]}}]}),
        )
        .await;
    let written = || {
        let writes = world.harness.requests().unwrap().writes();
        let writes = writes.filter(|entry| entry.name == world.name || entry.namespace == world.name);
        let mut written: Vec<_> =
            writes.entries.iter().map(|entry| format!("{} {}", entry.verb, entry.resource)).collect();
        written.sort();
        written
    };
    // The log may have the last of them, the status, after the watch has shown it.
    let is_told = async || Ok(written().contains(&"update namespacepluses".to_owned()));
    eventually("the log to have the status", PATIENCE, is_told).await.unwrap();
    assert_eq!(
        written(),
        [
            "create namespaces",
            "create networkpolicies",
            "create resourcequotas",
            "patch namespacepluses",
            "update namespacepluses",
        ],
        "the patch is the finalizer, the update the status"
    );
}
