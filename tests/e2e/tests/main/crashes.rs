//! Managers that crash at random moments. The next manager completes the work and creates no object
//! twice.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::json;

use crate::support::{
    Account, LivePods, MEMCACHED, Manager, NAMESPACE_PLUS, POD_SET, TENANT, TestEnv, workbench,
};

/// Maximum delay before a kill in seconds. A reconcile takes less.
const MAX_DELAY_SECONDS: f64 = 0.4;

/// A manager with one controller that is killed repeatedly.
struct CrashingManager {
    env: &'static TestEnv,
    account: Account,
    controller: &'static str,
    random: fastrand::Rng,
    manager: Option<Manager>,
    lives: usize,
}

impl CrashingManager {
    async fn new(controller: &'static str, seed: u64) -> Self {
        let env = workbench().await;
        let account = env.account(&format!("manager-{controller}")).await;
        env.grant_controller_rights(&account, controller).await;
        let random = fastrand::Rng::with_seed(seed);
        let mut manager = Self { env, account, controller, random, manager: None, lives: 0 };
        manager.start();
        manager
    }

    fn start(&mut self) {
        self.lives += 1;
        let name = format!("manager-{}-{}", self.controller, self.lives);
        // The controller that belongs to Tenants is tested elsewhere.
        let only = format!("--controllers={},-capsuleconfiguration", self.controller);
        self.manager = Some(self.env.start(&name, &self.account, &[&only]));
    }

    /// Waits until the controller has started.
    async fn until_started(&self) {
        self.manager.as_ref().unwrap().until_logged("the controller starts").await;
    }

    /// Waits for a random time up to [`MAX_DELAY_SECONDS`]. Short times are more likely because
    /// most writes are early.
    async fn sleep_random(&mut self) {
        let share = self.random.f64();
        tokio::time::sleep(Duration::from_secs_f64(MAX_DELAY_SECONDS * share * share)).await;
    }

    /// Call this right after a change. Kills the manager at a random moment of its work, and the
    /// next one at a random moment of its start. Then starts a third.
    async fn kill_twice(&mut self) {
        for _ in 0..2 {
            self.sleep_random().await;
            self.manager.take().unwrap().kill();
            self.start();
        }
    }

    /// Like [`Self::kill_twice`], but stops the first manager with SIGTERM.
    async fn stop_and_kill(&mut self) {
        self.sleep_random().await;
        self.manager.take().unwrap().stop().await;
        self.start();
        self.sleep_random().await;
        self.manager.take().unwrap().kill();
        self.start();
    }

    /// Asserts that the managers created no object twice, except Events. Returns the number of
    /// created objects.
    fn assert_no_duplicate_creates(&self) -> usize {
        let made = self
            .env
            .requests(&self.account)
            .filter(|entry| entry.verb == "create" && entry.code == 201 && entry.resource != "events");
        let mut counts = BTreeMap::new();
        for entry in made.entries {
            *counts.entry((entry.resource, entry.namespace, entry.name)).or_insert(0) += 1;
        }
        let made = counts.len();
        counts.retain(|_, count| *count > 1);
        assert_eq!(counts, BTreeMap::new(), "created more than once");
        made
    }
}

#[tokio::test]
async fn podset_converges_without_surplus_pods() {
    let mut manager = CrashingManager::new("podset", 1).await;
    let env = manager.env;
    let namespace = env.cluster.namespace("manager").await.unwrap();
    let pods = LivePods::follow(Api::<Pod>::namespaced(env.cluster.client().await.unwrap(), &namespace));

    manager.until_started().await;
    env.create(&POD_SET, &namespace, "web", json!({ "replicas": 3 })).await;
    manager.kill_twice().await;
    env.until_ready(&POD_SET, &namespace, "web").await;
    pods.assert_settled(3, 3, 3).await;

    manager.until_started().await;
    env.change(&POD_SET, &namespace, "web", json!({ "replicas": 10 })).await;
    manager.stop_and_kill().await;
    env.until_ready(&POD_SET, &namespace, "web").await;
    pods.assert_settled(10, 10, 10).await;

    manager.until_started().await;
    env.change(&POD_SET, &namespace, "web", json!({ "replicas": 1 })).await;
    manager.kill_twice().await;
    env.until_ready(&POD_SET, &namespace, "web").await;
    pods.assert_settled(1, 10, 10).await;

    manager.until_started().await;
    env.delete(&POD_SET, &namespace, "web").await;
    manager.kill_twice().await;
    env.until_gone(&POD_SET, &namespace, "web").await;
    pods.assert_settled(0, 10, 10).await;
    assert!(manager.assert_no_duplicate_creates() <= 10);
}

#[tokio::test]
async fn memcached_converges() {
    let mut manager = CrashingManager::new("memcached", 2).await;
    let env = manager.env;
    let namespace = env.cluster.namespace("manager").await.unwrap();

    manager.until_started().await;
    env.create(&MEMCACHED, &namespace, "web", json!({ "size": 3 })).await;
    manager.kill_twice().await;
    let cache = env.until_ready(&MEMCACHED, &namespace, "web").await;
    assert_eq!(cache.data["status"]["nodes"].as_array().unwrap().len(), 3);

    manager.until_started().await;
    env.change(&MEMCACHED, &namespace, "web", json!({ "size": 5, "threads": 2 })).await;
    manager.stop_and_kill().await;
    let cache = env.until_ready(&MEMCACHED, &namespace, "web").await;
    assert_eq!(cache.data["status"]["nodes"].as_array().unwrap().len(), 5);

    manager.until_started().await;
    env.change(&MEMCACHED, &namespace, "web", json!({ "size": 1 })).await;
    manager.kill_twice().await;
    env.until_ready(&MEMCACHED, &namespace, "web").await;

    manager.until_started().await;
    env.delete(&MEMCACHED, &namespace, "web").await;
    manager.kill_twice().await;
    env.until_gone(&MEMCACHED, &namespace, "web").await;
    env.until_empty(&["deployments,services,poddisruptionbudgets", "--namespace", &namespace]).await;
    assert!(manager.assert_no_duplicate_creates() <= 3, "a Deployment, a Service, a PodDisruptionBudget");
}

#[tokio::test]
async fn namespaceplus_converges() {
    let mut manager = CrashingManager::new("namespaceplus", 3).await;
    let env = manager.env;
    let home = env.cluster.namespace("manager").await.unwrap();
    let spec = json!({
        "deletionPolicy": "Delete",
        "limitRange": { "limits": [{ "type": "Container", "default": { "cpu": "1" } }] },
        "networkPolicies": [{ "name": "deny", "spec": { "podSelector": {} } }],
        "roleBindings": [{
            "name": "view", "clusterRole": "view", "subjects": [{ "kind": "User", "name": "alice" }],
        }],
    });

    manager.until_started().await;
    env.create(&NAMESPACE_PLUS, &home, "manager-plus", spec).await;
    manager.kill_twice().await;
    env.until_ready(&NAMESPACE_PLUS, &home, "manager-plus").await;

    manager.until_started().await;
    let change = json!({ "labels": { "team": "blue" }, "networkPolicies": [], "quota": { "pods": "5" } });
    env.change(&NAMESPACE_PLUS, &home, "manager-plus", change).await;
    manager.stop_and_kill().await;
    env.until_ready(&NAMESPACE_PLUS, &home, "manager-plus").await;
    assert_eq!(env.names(&["networkpolicies", "--namespace=manager-plus"]).await, [""; 0]);
    let quota = env.read(&["get", "resourcequota", "default-quota", "--namespace=manager-plus"]).await;
    assert_eq!(quota["spec"]["hard"]["pods"], "5");

    manager.until_started().await;
    env.delete(&NAMESPACE_PLUS, &home, "manager-plus").await;
    manager.kill_twice().await;
    env.until_gone(&NAMESPACE_PLUS, &home, "manager-plus").await;
    assert_eq!(env.names(&["namespaces", "--field-selector=metadata.name=manager-plus"]).await, [""; 0]);
    assert!(manager.assert_no_duplicate_creates() <= 5, "a Namespace and one object of each kind in it");
}

#[tokio::test]
async fn tenant_converges() {
    let mut manager = CrashingManager::new("tenant", 4).await;
    let env = manager.env;
    let limits = json!({ "items": [{ "limits": [{ "type": "Container", "default": { "cpu": "1" } }] }] });
    let quotas = json!({ "items": [{ "hard": { "pods": "10" } }] });
    let spec = json!({ "owners": [{ "kind": "User", "name": "alice" }], "limitRanges": limits });

    manager.until_started().await;
    env.create(&TENANT, "", "manager", spec).await;
    manager.kill_twice().await;
    env.until_ready(&TENANT, "", "manager").await;

    manager.until_started().await;
    for namespace in ["manager-a", "manager-b"] {
        env.join("manager", namespace).await;
    }
    manager.stop_and_kill().await;
    env.until_tenant_ready("manager", 2).await;

    manager.until_started().await;
    env.change(&TENANT, "", "manager", json!({ "limitRanges": null, "resourceQuotas": quotas })).await;
    manager.kill_twice().await;
    env.until_tenant_ready("manager", 2).await;
    for namespace in ["manager-a", "manager-b"] {
        assert_eq!(env.names(&["limitranges", "--namespace", namespace]).await, [""; 0]);
        assert_eq!(env.names(&["resourcequotas", "--namespace", namespace]).await, ["capsule-manager-0"]);
        assert_eq!(env.names(&["rolebindings", "--namespace", namespace]).await.len(), 2);
    }

    manager.until_started().await;
    env.delete(&TENANT, "", "manager").await;
    manager.kill_twice().await;
    env.until_gone(&TENANT, "", "manager").await;
    assert!(
        manager.assert_no_duplicate_creates() <= 8,
        "in each namespace two RoleBindings, a LimitRange and a ResourceQuota"
    );
}
