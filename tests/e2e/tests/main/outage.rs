//! The API server is unavailable at the start and later.

use std::{collections::BTreeSet, time::Duration};

use cluster::{Component, wait::eventually};
use kube::api::DynamicObject;
use serde_json::json;

use crate::support::{MEMCACHED, Manager, PATIENCE, POD_SET, TestEnv, sample};

/// Log message for a kind whose watch fails temporarily.
const AWAY: &str = "trying again until the API server answers";

#[tokio::test]
async fn waits_for_api_server_and_keeps_pods_after_an_outage() {
    let env = TestEnv::complete().await;
    env.cluster.kill_component(Component::KubeApiserver).unwrap();
    let manager = env.start_with_probes("manager", &env.account, &[]);
    manager.until_logged(&format!("cannot watch PodSet: {AWAY}")).await;
    assert_eq!(manager.probe("/healthz").unwrap().0, 200);
    assert_eq!(manager.probe("/readyz").unwrap().0, 503);
    env.restart_api_server().await;
    manager.until_readyz(200, "ok").await;
    assert_few_lines(&manager, 0);
    env.kubectl(&["apply", "-f", &sample("podset"), "-f", &sample("memcached")]).await.unwrap();
    env.until_scaled(3).await;

    let before = env.pods().await;
    let lines = manager.log().lines().count();
    let logged = manager.count(&format!("cannot watch PodSet: {AWAY}"));
    env.cluster.kill_component(Component::KubeApiserver).unwrap();
    eventually("the manager to log the outage", PATIENCE, async || {
        Ok(manager.count(&format!("cannot watch PodSet: {AWAY}")) > logged)
    })
    .await
    .unwrap();
    // Enough time for many attempts.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(manager.probe("/healthz").unwrap().0, 200);
    env.restart_api_server().await;
    env.change(&POD_SET, "default", "podset-sample", json!({ "replicas": 5 })).await;
    env.change(&MEMCACHED, "default", "memcached-sample", json!({ "size": 5 })).await;
    env.until_scaled(5).await;
    let after = env.pods().await;
    assert_eq!(after.len(), 5);
    assert!(before.iter().all(|pod| after.contains(pod)), "{before:?} {after:?}");
    assert_few_lines(&manager, lines);
    manager.stop().await;
}

/// Asserts that the log has a few lines per kind: the watch failed, at most once per cause, and
/// works again.
fn assert_few_lines(manager: &Manager, after: usize) {
    let log = manager.log();
    let lines: Vec<_> = log.lines().skip(after).collect();
    let kind =
        |line: &&str| line.split_once("cannot watch ")?.1.split_once(':').map(|(kind, _)| kind.to_owned());
    let kinds = lines.iter().filter_map(kind).collect::<BTreeSet<_>>().len();
    assert!(lines.len() <= 5 * kinds, "{} lines about {kinds} kinds:\n{}", lines.len(), lines.join("\n"));
}

impl TestEnv {
    /// Restarts the API server and waits until it is ready.
    async fn restart_api_server(&self) {
        self.cluster.start_component(Component::KubeApiserver).unwrap();
        self.cluster.ready(PATIENCE).await.unwrap();
    }

    /// Waits until both samples have the expected number of Pods. Checks only the manager's part:
    /// the scheduler and the kubelets may take another minute to recover.
    async fn until_scaled(&self, pods: usize) {
        let has_pods = |set: &DynamicObject| {
            set.data["status"]["podNames"].as_array().is_some_and(|names| names.len() == pods)
        };
        self.until(&POD_SET, "default", "podset-sample", "to have its Pods", has_pods).await;
        eventually("the Deployment to follow", PATIENCE, async || {
            let deployment = self.read(&["get", "deployments"]).await["items"][0].clone();
            Ok(if deployment["spec"]["replicas"] == pods { Ok(()) } else { Err(deployment) })
        })
        .await
        .unwrap();
    }

    /// Returns the UIDs of the PodSet's Pods.
    async fn pods(&self) -> Vec<String> {
        let pods = self.read(&["get", "pods", "--selector=app=podset-sample"]).await;
        let uid = |pod: &serde_json::Value| pod["metadata"]["uid"].as_str().unwrap().to_owned();
        pods["items"].as_array().unwrap().iter().map(uid).collect()
    }
}
