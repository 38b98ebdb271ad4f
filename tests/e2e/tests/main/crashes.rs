//! Managers that are killed in the middle of their work. What they leave is taken up by the next, and nothing is made twice.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::json;

use crate::support::{
    Account, LivePods, MEMCACHED, Manager, NAMESPACE_PLUS, POD_SET, Stage, TENANT, workbench,
};

/// The longest wait for a kill. All that a step takes is done by then.
const LATEST: f64 = 0.4;

/// A controller in a manager of its own that does not live long.
struct Mortal {
    stage: &'static Stage,
    account: Account,
    controller: &'static str,
    random: fastrand::Rng,
    manager: Option<Manager>,
    lives: usize,
}

impl Mortal {
    async fn new(controller: &'static str, seed: u64) -> Self {
        let stage = workbench().await;
        let account = stage.account(&format!("mortal-{controller}")).await;
        stage.permit_account(&account, controller).await;
        let random = fastrand::Rng::with_seed(seed);
        let mut mortal = Self { stage, account, controller, random, manager: None, lives: 0 };
        mortal.start();
        mortal
    }

    fn start(&mut self) {
        self.lives += 1;
        let name = format!("mortal-{}-{}", self.controller, self.lives);
        // Without the companion of Tenants, which has its own part in the other tests.
        let only = format!("--controllers={},-capsuleconfiguration", self.controller);
        self.manager = Some(self.stage.start(&name, &self.account, &[&only]));
    }

    /// Waits until the manager works, so that what ends it next does so in the midst of work.
    async fn until_at_work(&self) {
        self.manager.as_ref().unwrap().until_logged("the controller starts").await;
    }

    /// A random moment within [`LATEST`], an early one more often, for most happens early.
    async fn moment(&mut self) {
        let share = self.random.f64();
        tokio::time::sleep(Duration::from_secs_f64(LATEST * share * share)).await;
    }

    /// To be called right after a change: kills the manager at a random moment of its work, and the next one at a random
    /// moment of its start. The third lives.
    async fn is_killed(&mut self) {
        for _ in 0..2 {
            self.moment().await;
            self.manager.take().unwrap().kill();
            self.start();
        }
    }

    /// The same, but the first is asked to end.
    async fn is_asked_to_end(&mut self) {
        self.moment().await;
        self.manager.take().unwrap().ask_to_end().await;
        self.start();
        self.moment().await;
        self.manager.take().unwrap().kill();
        self.start();
    }

    /// Holds the managers to having made no object twice, Events excepted. Returns how many they made.
    fn made_once(&self) -> usize {
        let made = self
            .stage
            .requests(&self.account)
            .filter(|entry| entry.verb == "create" && entry.code == 201 && entry.resource != "events");
        let mut counts = BTreeMap::new();
        for entry in made.entries {
            *counts.entry((entry.resource, entry.namespace, entry.name)).or_insert(0) += 1;
        }
        let made = counts.len();
        counts.retain(|_, count| *count > 1);
        assert_eq!(counts, BTreeMap::new(), "made more than once");
        made
    }
}

#[tokio::test]
async fn a_podset_comes_to_its_end_state_with_no_pod_too_many() {
    let mut mortal = Mortal::new("podset", 1).await;
    let stage = mortal.stage;
    let namespace = stage.cluster.namespace("mortal").await.unwrap();
    let pods = LivePods::follow(Api::<Pod>::namespaced(stage.cluster.client().await.unwrap(), &namespace));

    mortal.until_at_work().await;
    stage.create(&POD_SET, &namespace, "web", json!({ "replicas": 3 })).await;
    mortal.is_killed().await;
    stage.until_settled(&POD_SET, &namespace, "web").await;
    pods.assert_settled(3, 3, 3).await;

    mortal.until_at_work().await;
    stage.change(&POD_SET, &namespace, "web", json!({ "replicas": 10 })).await;
    mortal.is_asked_to_end().await;
    stage.until_settled(&POD_SET, &namespace, "web").await;
    pods.assert_settled(10, 10, 10).await;

    mortal.until_at_work().await;
    stage.change(&POD_SET, &namespace, "web", json!({ "replicas": 1 })).await;
    mortal.is_killed().await;
    stage.until_settled(&POD_SET, &namespace, "web").await;
    pods.assert_settled(1, 10, 10).await;

    mortal.until_at_work().await;
    stage.delete(&POD_SET, &namespace, "web").await;
    mortal.is_killed().await;
    stage.until_gone(&POD_SET, &namespace, "web").await;
    pods.assert_settled(0, 10, 10).await;
    assert!(mortal.made_once() <= 10);
}

#[tokio::test]
async fn a_memcached_comes_to_its_end_state() {
    let mut mortal = Mortal::new("memcached", 2).await;
    let stage = mortal.stage;
    let namespace = stage.cluster.namespace("mortal").await.unwrap();

    mortal.until_at_work().await;
    stage.create(&MEMCACHED, &namespace, "web", json!({ "size": 3 })).await;
    mortal.is_killed().await;
    let cache = stage.until_settled(&MEMCACHED, &namespace, "web").await;
    assert_eq!(cache.data["status"]["nodes"].as_array().unwrap().len(), 3);

    mortal.until_at_work().await;
    stage.change(&MEMCACHED, &namespace, "web", json!({ "size": 5, "threads": 2 })).await;
    mortal.is_asked_to_end().await;
    let cache = stage.until_settled(&MEMCACHED, &namespace, "web").await;
    assert_eq!(cache.data["status"]["nodes"].as_array().unwrap().len(), 5);

    mortal.until_at_work().await;
    stage.change(&MEMCACHED, &namespace, "web", json!({ "size": 1 })).await;
    mortal.is_killed().await;
    stage.until_settled(&MEMCACHED, &namespace, "web").await;

    mortal.until_at_work().await;
    stage.delete(&MEMCACHED, &namespace, "web").await;
    mortal.is_killed().await;
    stage.until_gone(&MEMCACHED, &namespace, "web").await;
    stage.until_none(&["deployments,services,poddisruptionbudgets", "--namespace", &namespace]).await;
    assert!(mortal.made_once() <= 3, "a Deployment, a Service, a PodDisruptionBudget");
}

#[tokio::test]
async fn a_namespaceplus_comes_to_its_end_state() {
    let mut mortal = Mortal::new("namespaceplus", 3).await;
    let stage = mortal.stage;
    let home = stage.cluster.namespace("mortal").await.unwrap();
    let spec = json!({
        "deletionPolicy": "Delete",
        "limitRange": { "limits": [{ "type": "Container", "default": { "cpu": "1" } }] },
        "networkPolicies": [{ "name": "deny", "spec": { "podSelector": {} } }],
        "roleBindings": [{
            "name": "view", "clusterRole": "view", "subjects": [{ "kind": "User", "name": "alice" }],
        }],
    });

    mortal.until_at_work().await;
    stage.create(&NAMESPACE_PLUS, &home, "mortal-plus", spec).await;
    mortal.is_killed().await;
    stage.until_settled(&NAMESPACE_PLUS, &home, "mortal-plus").await;

    mortal.until_at_work().await;
    let change = json!({ "labels": { "team": "blue" }, "networkPolicies": [], "quota": { "pods": "5" } });
    stage.change(&NAMESPACE_PLUS, &home, "mortal-plus", change).await;
    mortal.is_asked_to_end().await;
    stage.until_settled(&NAMESPACE_PLUS, &home, "mortal-plus").await;
    assert_eq!(stage.names(&["networkpolicies", "--namespace=mortal-plus"]).await, [""; 0]);
    let quota = stage.read(&["get", "resourcequota", "default-quota", "--namespace=mortal-plus"]).await;
    assert_eq!(quota["spec"]["hard"]["pods"], "5");

    mortal.until_at_work().await;
    stage.delete(&NAMESPACE_PLUS, &home, "mortal-plus").await;
    mortal.is_killed().await;
    stage.until_gone(&NAMESPACE_PLUS, &home, "mortal-plus").await;
    assert_eq!(stage.names(&["namespaces", "--field-selector=metadata.name=mortal-plus"]).await, [""; 0]);
    assert!(mortal.made_once() <= 5, "a Namespace and one of each in it");
}

#[tokio::test]
async fn a_tenant_comes_to_its_end_state() {
    let mut mortal = Mortal::new("tenant", 4).await;
    let stage = mortal.stage;
    let limits = json!({ "items": [{ "limits": [{ "type": "Container", "default": { "cpu": "1" } }] }] });
    let quotas = json!({ "items": [{ "hard": { "pods": "10" } }] });
    let spec = json!({ "owners": [{ "kind": "User", "name": "alice" }], "limitRanges": limits });

    mortal.until_at_work().await;
    stage.create(&TENANT, "", "mortal", spec).await;
    mortal.is_killed().await;
    stage.until_settled(&TENANT, "", "mortal").await;

    mortal.until_at_work().await;
    for namespace in ["mortal-a", "mortal-b"] {
        stage.join("mortal", namespace).await;
    }
    mortal.is_asked_to_end().await;
    stage.until_joined("mortal", 2).await;

    mortal.until_at_work().await;
    stage.change(&TENANT, "", "mortal", json!({ "limitRanges": null, "resourceQuotas": quotas })).await;
    mortal.is_killed().await;
    stage.until_joined("mortal", 2).await;
    for namespace in ["mortal-a", "mortal-b"] {
        assert_eq!(stage.names(&["limitranges", "--namespace", namespace]).await, [""; 0]);
        assert_eq!(stage.names(&["resourcequotas", "--namespace", namespace]).await, ["capsule-mortal-0"]);
        assert_eq!(stage.names(&["rolebindings", "--namespace", namespace]).await.len(), 2);
    }

    mortal.until_at_work().await;
    stage.delete(&TENANT, "", "mortal").await;
    mortal.is_killed().await;
    stage.until_gone(&TENANT, "", "mortal").await;
    assert!(mortal.made_once() <= 8, "in each namespace two RoleBindings, a LimitRange and a ResourceQuota");
}
