//! Controllers while nodes are drained, die, or are cut off with the leader.

use std::time::{Duration, Instant};

use cluster::wait::eventually;

use crate::{
    manager::install,
    support::{Kubectl, NODES, PATIENCE, exclusive},
};

const NODE: &str = "worker-1";
const MANAGER: &str = "ensemble-system";
/// Default of `--leader-elect-lease-duration`.
const LEASE: Duration = Duration::from_secs(15);
/// The other replica tries once in two seconds. The rest is for a busy machine.
const TAKEOVER: Duration = Duration::from_secs(2 + 3);

/// A PodSet whose Pods leave a node three seconds after it stops responding.
const PODSET: &str = "
apiVersion: app.example.com/v1alpha1
kind: PodSet
metadata: {name: web, namespace: NAMESPACE}
spec:
  replicas: 3
  template:
    spec:
      terminationGracePeriodSeconds: 0
      tolerations:
        - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 3}
        - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 3}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector: {matchLabels: {app.kubernetes.io/instance: web}}
      containers:
        - name: nginx
          image: nginx:1.27
          readinessProbe: {httpGet: {port: 80}, periodSeconds: 1}
";
const READY: &str = "get podset web -o jsonpath={.status.readyReplicas}";
/// Names and nodes of the PodSet's Pods that are not being deleted.
const LIVE: &str =
    r#"get pods -o jsonpath={range .items[?(!@.metadata.deletionTimestamp)]}{.spec.nodeName}{"\n"}{end}"#;

impl Kubectl {
    async fn live_pods(&self) -> Vec<String> {
        self.run(LIVE).await.unwrap().lines().map(str::to_owned).collect()
    }

    /// Waits until three Pods are Ready, none of them on the node.
    async fn until_ready_without(&self, node: &str) {
        eventually("three Pods on the other nodes", PATIENCE, async || {
            let (ready, live) = (self.run(READY).await?, self.live_pods().await);
            let moved = ready == "3" && live.len() == 3 && live.iter().all(|on| on != node);
            Ok(if moved { Ok(()) } else { Err((ready, live)) })
        })
        .await
        .unwrap();
    }
}

#[tokio::test]
async fn drained_node_is_left_within_the_disruption_budget() {
    let exclusive = exclusive().await;
    install(exclusive.cluster).await;
    let kubectl = Kubectl::new(exclusive.cluster, "drain").await;
    kubectl
        .apply(&format!(
            "{PODSET}
---
apiVersion: cache.example.com/v1alpha1
kind: Memcached
metadata: {{name: cache, namespace: NAMESPACE}}
spec: {{size: 3}}
"
        ))
        .await;
    kubectl.until(READY, |count| count == "3").await;
    kubectl.run("wait --for=condition=Available memcached/cache --timeout=120s").await.unwrap();

    // At no time is more than one instance of the cache missing.
    let watching = async {
        loop {
            let ready =
                kubectl.run("get deployment cache -o jsonpath={.status.availableReplicas}").await.unwrap();
            assert!(
                ready.parse::<u32>().unwrap_or(0) >= 2,
                "{ready} of 3 instances of the cache are available"
            );
        }
    };
    let drain = format!("drain {NODE} --ignore-daemonsets --delete-emptydir-data --force --timeout=120s");
    let drained = tokio::select! {
        drained = kubectl.run(&drain) => drained,
        () = watching => Ok(String::new()),
    };
    drained.unwrap();
    kubectl.until_ready_without(NODE).await;
    kubectl.run("rollout status deployment/cache --timeout=120s").await.unwrap();
    kubectl.run(&format!("uncordon {NODE}")).await.unwrap();
    for deployment in ["deployment/ensemble-manager -n ensemble-system", "deployment/coredns -n kube-system"]
    {
        kubectl.run(&format!("rollout status {deployment} --timeout=120s")).await.unwrap();
    }
}

#[tokio::test]
async fn pods_of_a_dead_node_are_replaced_without_surplus() {
    let exclusive = exclusive().await;
    install(exclusive.cluster).await;
    let kubectl = Kubectl::new(exclusive.cluster, "dead").await;
    kubectl.apply(PODSET).await;
    kubectl.until(READY, |count| count == "3").await;
    let mut nodes = kubectl.live_pods().await;
    nodes.sort_unstable();
    assert_eq!(nodes, NODES);

    exclusive.cluster.power_off_node(NODE).unwrap();
    kubectl.until_ready_without(NODE).await;
    exclusive.cluster.power_on_node(NODE).unwrap();
    kubectl.until(&format!("get node {NODE} --no-headers"), |node| node.contains(" Ready ")).await;
    // The kubelet ends the Pods that were deleted while it was off.
    eventually("the Pods of the dead node to be removed", PATIENCE, async || {
        let pods = kubectl.run("get pods --no-headers").await?;
        assert!(kubectl.live_pods().await.len() <= 3, "surplus Pods:\n{pods}");
        Ok(if pods.lines().count() == 3 { Ok(()) } else { Err(pods) })
    })
    .await
    .unwrap();
    assert_eq!(kubectl.run(READY).await.unwrap(), "3");
}

#[tokio::test]
async fn other_replica_takes_over_from_a_leader_that_is_cut_off() {
    let exclusive = exclusive().await;
    install(exclusive.cluster).await;
    let manager = Kubectl::new(exclusive.cluster, "takeover").await;
    let holder = format!("get lease ensemble-podset -n {MANAGER} -o jsonpath={{.spec.holderIdentity}}");
    let leader = manager.until(&holder, |holder| !holder.is_empty()).await;
    let pod = leader.split('_').next().unwrap();
    let node =
        manager.run(&format!("get pod {pod} -n {MANAGER} -o jsonpath={{.spec.nodeName}}")).await.unwrap();

    exclusive.cluster.cut_node(&node).unwrap();
    let cut = Instant::now();
    manager.until(&holder, |holder| holder != leader && !holder.is_empty()).await;
    let took = cut.elapsed();
    println!("the other replica took over {:.1} s after the cut", took.as_secs_f64());
    assert!(took <= LEASE + TAKEOVER, "the takeover took {took:?}");

    let affinity = format!(
        "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{{matchExpressions: [{{key: kubernetes.io/hostname, operator: NotIn, values: [{node}]}}]}}]}}}}}}\n      containers:"
    );
    manager.apply(&PODSET.replace("containers:", &affinity)).await;
    manager.until(READY, |count| count == "3").await;
    exclusive.cluster.heal_node(&node).unwrap();
    manager
        .run(&format!("rollout status deployment/ensemble-manager -n {MANAGER} --timeout=120s"))
        .await
        .unwrap();
    assert_eq!(manager.live_pods().await.len(), 3, "the old leader must not create Pods");
    assert_ne!(manager.run(&holder).await.unwrap(), leader);
}
