//! A node that loses power, and comes back after its Pods have been replaced.

use std::collections::BTreeSet;

use cluster::wait::eventually;

use crate::{
    manager::install,
    podset::{EVICTED_AFTER_3_SECONDS, READY},
    support::{Kubectl, PATIENCE, exclusive},
};

/// The number of Pods, the number of Ready Pods, and the condition Ready.
const STATUS: &str =
    r#"{.status.availableReplicas}/{.status.readyReplicas}/{.status.conditions[?(@.type=="Ready")].status}"#;

impl Kubectl {
    /// Returns the nodes of the Pods that the PodSet's status contains.
    async fn nodes_of_podset(&self) -> anyhow::Result<Vec<String>> {
        let names = self.run("get podset web -o jsonpath={.status.podNames[*]}").await?;
        let nodes = format!("get pods {names} -o custom-columns=NODE:.spec.nodeName --no-headers");
        Ok(self.run(&nodes).await?.lines().map(str::to_owned).collect())
    }
}

/// Returns the maximum number of Pods that existed at a time and were not being deleted. Each change
/// is the name of a Pod, and its deletion time if it has one.
fn most_live_pods(changes: &[String]) -> usize {
    let (mut live, mut most) = (BTreeSet::new(), 0);
    for change in changes {
        match change.split_once(' ') {
            Some((name, "")) => live.insert(name),
            Some((name, _)) => live.remove(name),
            None => panic!("no name in {change:?}"),
        };
        most = most.max(live.len());
    }
    most
}

#[tokio::test]
async fn pods_of_a_node_without_power_are_replaced_without_surplus() {
    let exclusive = exclusive().await;
    install(exclusive.cluster).await;
    let kubectl = Kubectl::new(exclusive.cluster, "power").await;
    kubectl.apply(EVICTED_AFTER_3_SECONDS).await;
    kubectl.until(READY, |count| count == "3").await;
    let status = kubectl.history("podset/web", STATUS).await;
    let pods = kubectl.history("pods", "{.metadata.name} {.metadata.deletionTimestamp}").await;

    let nodes = kubectl.nodes_of_podset().await.unwrap();
    let node = &nodes[0];
    let lost = nodes.iter().filter(|other| *other == node).count();
    exclusive.cluster.power_off_node(node).unwrap();
    eventually("three Ready Pods on other nodes", PATIENCE, async || {
        let (ready, nodes) = (kubectl.run(READY).await?, kubectl.nodes_of_podset().await?);
        let replaced = ready == "3" && nodes.len() == 3 && !nodes.contains(node);
        Ok(if replaced { Ok(()) } else { Err((ready, nodes)) })
    })
    .await
    .unwrap();
    // Nobody confirms the end of the containers.
    let terminating = kubectl.run("get pods --no-headers").await.unwrap();
    assert_eq!(terminating.matches(" Terminating ").count(), lost, "{terminating}");

    exclusive.cluster.power_on_node(node).unwrap();
    exclusive.repaired().await;
    kubectl.until("get pods --no-headers", |pods| pods.lines().count() == 3).await;
    assert_eq!(kubectl.run(READY).await.unwrap(), "3");
    let (status, pods) = (status.values().await, pods.values().await);
    println!("status: {}", status.join(" "));
    assert!(status.contains(&format!("3/{}/False", 3 - lost)), "the status hides the loss: {status:?}");
    assert_eq!(most_live_pods(&pods), 3, "surplus Pods: {pods:#?}");
}
