//! Controllers while the node of the leader is cut off.

use std::time::{Duration, Instant};

use crate::{
    manager::install,
    podset::{EVICTED_AFTER_3_SECONDS, READY},
    support::{Kubectl, exclusive},
};
use ::manager::NAMESPACE as MANAGER;

/// Default of `--leader-elect-lease-duration`.
const LEASE: Duration = Duration::from_secs(15);
/// The other replica tries once in two seconds. The rest is for a busy machine.
const TAKEOVER: Duration = Duration::from_secs(2 + 3);

/// The deletion time and the node of each Pod.
const PODS: &str =
    "get pods --no-headers -o custom-columns=DELETED:.metadata.deletionTimestamp,NODE:.spec.nodeName";

impl Kubectl {
    /// Returns the nodes of the Pods that are not being deleted.
    async fn live_pods(&self) -> Vec<String> {
        let pods = self.run(PODS).await.unwrap();
        let live = pods.lines().filter_map(|pod| pod.strip_prefix("<none>"));
        live.map(|node| node.trim().to_owned()).collect()
    }
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
    manager.apply(&EVICTED_AFTER_3_SECONDS.replace("containers:", &affinity)).await;
    manager.until(READY, |count| count == "3").await;
    exclusive.cluster.heal_node(&node).unwrap();
    manager
        .run(&format!("rollout status deployment/ensemble-manager -n {MANAGER} --timeout=120s"))
        .await
        .unwrap();
    assert_eq!(manager.live_pods().await.len(), 3, "the old leader must not create Pods");
    assert_ne!(manager.run(&holder).await.unwrap(), leader);
    exclusive.repaired().await;
}
