//! Budgets of Kubernetes itself hold for the pods that the manager runs.

use std::time::Duration;

use cluster::wait::eventually;
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::{Api, Client, api::EvictParams};
use serde_json::{Value, json};

use crate::support::{MEMCACHED, POD_SET, Stage};

/// Kubernetes' controller of budgets asks for the kinds that there are every half minute, longer on a busy machine.
const BUDGETS: Duration = Duration::from_mins(3);

/// A cluster whose nodes take no more pods until they are told to, and who asks for evictions there.
struct World {
    stage: Stage,
    _manager: crate::support::Manager,
    pods: Api<Pod>,
}

impl World {
    async fn new() -> Self {
        let stage = Stage::complete().await;
        let manager = stage.start("manager", &stage.account, &[]);
        // A refusal is an answer, and not to be asked for again.
        let mut config = stage.cluster.config().await.unwrap();
        config.default_retry = false;
        let pods = Api::namespaced(Client::try_from(config).unwrap(), "default");
        Self { stage, _manager: manager, pods }
    }

    async fn nodes(&self, verb: &str) {
        for node in self.stage.names(&["nodes"]).await {
            self.stage.kubectl(&[verb, &node]).await.unwrap();
        }
    }

    /// Waits until the budget says so: pods that it expects, those that are healthy, and those that may go.
    async fn until_budget(&self, name: &str, [expected, healthy, allowed]: [i64; 3]) {
        eventually(&format!("the budget {name} to allow {allowed} of {expected}"), BUDGETS, async || {
            // Kubernetes' controller of budgets gets to know of a kind, and so of its scale subresource, up to half a minute
            // after its definition, and does not look again by itself.
            let look = format!("example.com/look={}", Timestamp::now().as_nanosecond());
            self.stage.kubectl(&["annotate", "poddisruptionbudget", name, &look, "--overwrite"]).await?;
            let budget = self.stage.read(&["get", "poddisruptionbudget", name]).await;
            let status = &budget["status"];
            let figures =
                ["expectedPods", "currentHealthy", "disruptionsAllowed"].map(|of| status[of].as_i64());
            Ok(if figures == [expected, healthy, allowed].map(Some) { Ok(()) } else { Err(status.clone()) })
        })
        .await
        .unwrap();
    }

    /// Names of the pods with these labels that run, sorted.
    async fn running(&self, labels: &str) -> Vec<String> {
        let running = "--field-selector=status.phase=Running";
        self.stage.names(&["pods", running, &format!("--selector={labels}")]).await
    }

    async fn evict(&self, pod: &str) {
        self.pods.evict(pod, &EvictParams::default()).await.unwrap();
    }

    /// Holds the API server to refusing the eviction for the sake of the budget.
    async fn assert_refused(&self, pod: &str) {
        let refused = self.pods.evict(pod, &EvictParams::default()).await.unwrap_err();
        let kube::Error::Api(status) = refused else { panic!("{refused}") };
        assert_eq!(status.code, 429, "{status:?}");
        assert!(status.message.contains("disruption budget"), "{}", status.message);
    }
}

#[tokio::test]
async fn a_budget_in_percent_holds_for_a_podset_by_its_scale_subresource() {
    let world = World::new().await;
    world.stage.create(&POD_SET, "default", "web", json!({ "replicas": 4 })).await;
    let set = world.stage.until_settled(&POD_SET, "default", "web").await;
    let selector = set.data["status"]["selector"].as_str().unwrap().to_owned();
    let labels: Value = selector.split(',').filter_map(|pair| pair.split_once('=')).collect();
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "web", "namespace": "default" },
        "spec": { "minAvailable": "50%", "selector": { "matchLabels": labels } },
    });
    world.stage.cluster.apply_yaml(&budget.to_string()).await.unwrap();
    world.until_budget("web", [4, 4, 2]).await;

    world.nodes("cordon").await;
    let before = world.running(&selector).await;
    world.evict(&before[0]).await;
    world.evict(&before[1]).await;
    world.assert_refused(&before[2]).await;
    // The replacements are there and count as pods, but not as healthy ones.
    world.stage.until_count(&["pods", &format!("--selector={selector}")], 4).await;
    world.until_budget("web", [4, 2, 0]).await;
    world.assert_refused(&before[2]).await;

    world.nodes("uncordon").await;
    world.until_budget("web", [4, 4, 2]).await;
    world.evict(&before[2]).await;
    world.stage.until_settled(&POD_SET, "default", "web").await;
}

#[tokio::test]
async fn the_budget_that_a_memcached_comes_with_lets_one_pod_go_at_a_time() {
    let world = World::new().await;
    world.stage.create(&MEMCACHED, "default", "cache", json!({ "size": 3 })).await;
    world.stage.until_settled(&MEMCACHED, "default", "cache").await;
    world.until_budget("cache", [3, 3, 1]).await;

    world.nodes("cordon").await;
    let before = world.running("memcached_cr=cache").await;
    world.evict(&before[0]).await;
    world.assert_refused(&before[1]).await;
    world.until_budget("cache", [3, 2, 0]).await;
    world.assert_refused(&before[1]).await;

    world.nodes("uncordon").await;
    world.until_budget("cache", [3, 3, 1]).await;
    world.evict(&before[1]).await;
    world.stage.until_settled(&MEMCACHED, "default", "cache").await;
}
