//! PodDisruptionBudgets protect the Pods of PodSets and Memcacheds.

use std::time::Duration;

use cluster::wait::eventually;
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::{Api, Client, api::EvictParams};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::support::{MEMCACHED, Manager, POD_SET, TestEnv};

/// The disruption controller discovers kinds every 30 s. The timeout allows for a busy machine.
const BUDGETS: Duration = Duration::from_mins(3);

/// A cluster whose nodes one test at a time can cordon, and a client that requests evictions.
struct EvictionTest {
    env: &'static TestEnv,
    _nodes: MutexGuard<'static, ()>,
    pods: Api<Pod>,
}

impl EvictionTest {
    async fn new() -> Self {
        static SHARED_ENV: OnceCell<(TestEnv, Manager)> = OnceCell::const_new();
        static NODES: Mutex<()> = Mutex::const_new(());
        let nodes = NODES.lock().await;
        let start = async || {
            let env = TestEnv::complete().await;
            let manager = env.start("manager", &env.account, &["--controllers=memcached,podset"]);
            (env, manager)
        };
        let (env, _) = SHARED_ENV.get_or_init(start).await;
        // A rejected eviction must not be retried.
        let mut config = env.cluster.config().await.unwrap();
        config.default_retry = false;
        let pods = Api::namespaced(Client::try_from(config).unwrap(), "default");
        Self { env, _nodes: nodes, pods }
    }

    async fn for_all_nodes(&self, verb: &str) {
        for node in self.env.names(&["nodes"]).await {
            self.env.kubectl(&[verb, &node]).await.unwrap();
        }
    }

    /// Waits until the budget's status has these numbers of expected, healthy, and disruptible
    /// Pods.
    async fn until_budget(&self, name: &str, [expected, healthy, allowed]: [i64; 3]) {
        eventually(&format!("the budget {name} to allow {allowed} of {expected}"), BUDGETS, async || {
            // The disruption controller discovers a new kind's scale subresource up to 30 s
            // after its CRD, and does not retry on its own. The annotation triggers a sync.
            let look = format!("example.com/look={}", Timestamp::now().as_nanosecond());
            self.env.kubectl(&["annotate", "poddisruptionbudget", name, &look, "--overwrite"]).await?;
            let budget = self.env.read(&["get", "poddisruptionbudget", name]).await;
            let status = &budget["status"];
            let figures =
                ["expectedPods", "currentHealthy", "disruptionsAllowed"].map(|of| status[of].as_i64());
            Ok(if figures == [expected, healthy, allowed].map(Some) { Ok(()) } else { Err(status.clone()) })
        })
        .await
        .unwrap();
    }

    /// Returns the sorted names of the running Pods with these labels.
    async fn running(&self, labels: &str) -> Vec<String> {
        let running = "--field-selector=status.phase=Running";
        self.env.names(&["pods", running, &format!("--selector={labels}")]).await
    }

    async fn evict(&self, pod: &str) {
        self.pods.evict(pod, &EvictParams::default()).await.unwrap();
    }

    /// Asserts that the API server rejects the eviction because of the budget.
    async fn assert_refused(&self, pod: &str) {
        let refused = self.pods.evict(pod, &EvictParams::default()).await.unwrap_err();
        let kube::Error::Api(status) = refused else { panic!("{refused}") };
        assert_eq!(status.code, 429, "{status:?}");
        assert!(status.message.contains("disruption budget"), "{}", status.message);
    }
}

#[tokio::test]
async fn percentage_budget_uses_scale_of_podset() {
    let test = EvictionTest::new().await;
    test.env.create(&POD_SET, "default", "web", json!({ "replicas": 4 })).await;
    let set = test.env.until_ready(&POD_SET, "default", "web").await;
    let selector = set.data["status"]["selector"].as_str().unwrap().to_owned();
    let labels: Value = selector.split(',').filter_map(|pair| pair.split_once('=')).collect();
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "web", "namespace": "default" },
        "spec": { "minAvailable": "50%", "selector": { "matchLabels": labels } },
    });
    test.env.cluster.apply_yaml(&budget.to_string()).await.unwrap();
    test.until_budget("web", [4, 4, 2]).await;

    test.for_all_nodes("cordon").await;
    let before = test.running(&selector).await;
    test.evict(&before[0]).await;
    test.evict(&before[1]).await;
    test.assert_refused(&before[2]).await;
    // The replacements exist, but are not healthy.
    test.env.until_count(&["pods", &format!("--selector={selector}")], 4).await;
    test.until_budget("web", [4, 2, 0]).await;
    test.assert_refused(&before[2]).await;

    test.for_all_nodes("uncordon").await;
    test.until_budget("web", [4, 4, 2]).await;
    test.evict(&before[2]).await;
    test.env.until_ready(&POD_SET, "default", "web").await;
}

#[tokio::test]
async fn budget_of_memcached_allows_one_disruption() {
    let test = EvictionTest::new().await;
    test.env.create(&MEMCACHED, "default", "cache", json!({ "size": 3 })).await;
    test.env.until_ready(&MEMCACHED, "default", "cache").await;
    test.until_budget("cache", [3, 3, 1]).await;

    test.for_all_nodes("cordon").await;
    let before = test.running("memcached_cr=cache").await;
    test.evict(&before[0]).await;
    test.assert_refused(&before[1]).await;
    test.until_budget("cache", [3, 2, 0]).await;
    test.assert_refused(&before[1]).await;

    test.for_all_nodes("uncordon").await;
    test.until_budget("cache", [3, 3, 1]).await;
    test.evict(&before[1]).await;
    test.env.until_ready(&MEMCACHED, "default", "cache").await;
}
