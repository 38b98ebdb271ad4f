//! A node is drained while instances of a Memcached and Pods of a PodSet run on it.

use std::collections::BTreeMap;

use cluster::wait::eventually;

use crate::{
    history::History,
    manager::install,
    support::{Kubectl, PATIENCE, exclusive},
};

/// Four Pods on three nodes, of which an eviction may disrupt one at a time.
const WORKLOADS: &str = "
apiVersion: app.example.com/v1alpha1
kind: PodSet
metadata: {name: drained-web, namespace: NAMESPACE}
spec:
  replicas: 4
  template:
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: nginx
          image: nginx:1.27
          readinessProbe: {httpGet: {port: 80}, periodSeconds: 1}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: drained-web, namespace: NAMESPACE}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: drained-web}}}
---
apiVersion: cache.example.com/v1alpha1
kind: Memcached
metadata: {name: drained-cache, namespace: NAMESPACE}
spec: {size: 4}
";
/// The manager is evicted too. Other tests left Pods that nothing replaces.
const EVICTED: &str = "--pod-selector=app.kubernetes.io/instance in (drained-web,drained-cache,ensemble)";
const AVAILABLE: &str = "get deployment drained-cache -o jsonpath={.status.availableReplicas}";
const READY: &str = "get podset drained-web -o jsonpath={.status.readyReplicas}";

impl Kubectl {
    /// Returns the node of each Pod.
    async fn nodes(&self) -> Vec<String> {
        let nodes = self.run("get pods --no-headers -o custom-columns=NODE:.spec.nodeName").await.unwrap();
        nodes.lines().map(str::to_owned).collect()
    }

    /// Returns the node with the most Pods.
    async fn fullest_node(&self) -> String {
        let mut counts = BTreeMap::<_, usize>::new();
        for node in self.nodes().await {
            *counts.entry(node).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).unwrap().0
    }

    /// Waits until the budget allows one eviction.
    pub(crate) async fn until_evictable(&self, budget: &str) {
        eventually("the budget to allow an eviction", PATIENCE, async || {
            // The disruption controller discovers a new kind up to 30 s after its definition, and does
            // not retry on its own. A change triggers it.
            let number = std::time::SystemTime::UNIX_EPOCH.elapsed()?.as_nanos();
            self.run(&format!("annotate pdb {budget} --overwrite example.com/look={number}")).await?;
            let status = self.run(&format!("get pdb {budget} -o jsonpath={{.status}}")).await?;
            Ok(if status.contains(r#""disruptionsAllowed":1"#) { Ok(()) } else { Err(status) })
        })
        .await
        .unwrap();
    }
}

/// Fails if fewer than three of four Pods were available at any time.
async fn assert_three_available(history: History) {
    let counts = history.values().await;
    println!("Pods during the drain: {}", counts.join(" "));
    assert!(counts.iter().all(|count| count.parse::<u32>().is_ok_and(|count| count >= 3)), "{counts:?}");
    assert!(counts.contains(&"3".to_owned()), "no Pod was evicted: {counts:?}");
}

#[tokio::test]
async fn drain_disrupts_one_pod_of_each_workload_at_a_time() {
    let exclusive = exclusive().await;
    install(exclusive.cluster).await;
    let kubectl = Kubectl::new(exclusive.cluster, "drain").await;
    kubectl.apply(WORKLOADS).await;
    kubectl.until(READY, |count| count == "4").await;
    kubectl.until(AVAILABLE, |count| count == "4").await;
    for budget in ["drained-web", "drained-cache"] {
        kubectl.until_evictable(budget).await;
    }
    let cache = kubectl.history("deployment/drained-cache", "{.status.availableReplicas}").await;
    let web = kubectl.history("podset/drained-web", "{.status.readyReplicas}").await;

    let node = kubectl.fullest_node().await;
    let drain = ["drain", &node, "--delete-emptydir-data", "--timeout=120s", EVICTED];
    kubectl.args(&drain).await.unwrap();
    kubectl.until(READY, |count| count == "4").await;
    kubectl.until(AVAILABLE, |count| count == "4").await;
    assert!(!kubectl.nodes().await.contains(&node), "a Pod is on the drained node");
    kubectl.run(&format!("uncordon {node}")).await.unwrap();
    assert_three_available(cache).await;
    assert_three_available(web).await;
    exclusive.repaired().await;
}
