//! An API server that is not there: at the start, and in between.

use std::time::Duration;

use cluster::{Component, wait::eventually};
use kube::api::DynamicObject;
use serde_json::json;

use crate::support::{MEMCACHED, Manager, PATIENCE, POD_SET, Stage, sample};

/// What the manager says of a kind that it cannot watch for the time being.
const AWAY: &str = "trying again until the API server answers";

#[tokio::test]
async fn it_waits_for_an_api_server_that_is_away_and_changes_nothing_when_it_is_back() {
    let stage = Stage::complete().await;
    stage.cluster.kill_component(Component::KubeApiserver).unwrap();
    let manager = stage.start_with_probes("manager", &stage.account, &[]);
    manager.until_logged(&format!("cannot watch PodSet: {AWAY}")).await;
    assert_eq!(manager.probe("/healthz").unwrap().0, 200);
    assert_eq!(manager.probe("/readyz").unwrap().0, 503);
    stage.come_back().await;
    manager.until_readyz(200, "ok").await;
    assert_few_lines(&manager, 0);
    stage.kubectl(&["apply", "-f", &sample("podset"), "-f", &sample("memcached")]).await.unwrap();
    stage.until_followed(3).await;

    let before = stage.pods().await;
    let lines = manager.log().lines().count();
    let told = manager.count(&format!("cannot watch PodSet: {AWAY}"));
    stage.cluster.kill_component(Component::KubeApiserver).unwrap();
    eventually("the manager to notice", PATIENCE, async || {
        Ok(manager.count(&format!("cannot watch PodSet: {AWAY}")) > told)
    })
    .await
    .unwrap();
    // Long enough for many attempts.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(manager.probe("/healthz").unwrap().0, 200);
    stage.come_back().await;
    stage.change(&POD_SET, "default", "podset-sample", json!({ "replicas": 5 })).await;
    stage.change(&MEMCACHED, "default", "memcached-sample", json!({ "size": 5 })).await;
    stage.until_followed(5).await;
    let after = stage.pods().await;
    assert_eq!(after.len(), 5);
    assert!(before.iter().all(|pod| after.contains(pod)), "{before:?} {after:?}");
    assert_few_lines(&manager, lines);
    manager.ask_to_end().await;
}

/// Holds the log to a few lines for each kind: that the watch broke, as often as for another reason, and that it works
/// again.
fn assert_few_lines(manager: &Manager, after: usize) {
    let log = manager.log();
    let lines: Vec<_> = log.lines().skip(after).collect();
    let kinds = 13;
    assert!(lines.len() <= 5 * kinds, "{} lines:\n{}", lines.len(), lines.join("\n"));
}

impl Stage {
    /// Starts the API server again and waits until it is usable.
    async fn come_back(&self) {
        self.cluster.start_component(Component::KubeApiserver).unwrap();
        self.cluster.ready(PATIENCE).await.unwrap();
    }

    /// Waits until both samples have so many pods, as far as that is the manager's: scheduler and kubelets may take a minute
    /// until they work again, too.
    async fn until_followed(&self, pods: usize) {
        let has_pods = |set: &DynamicObject| {
            set.data["status"]["podNames"].as_array().is_some_and(|names| names.len() == pods)
        };
        self.until(&POD_SET, "default", "podset-sample", "to have its pods", has_pods).await;
        eventually("the Deployment to follow", PATIENCE, async || {
            let deployment = self.read(&["get", "deployments"]).await["items"][0].clone();
            Ok(if deployment["spec"]["replicas"] == pods { Ok(()) } else { Err(deployment) })
        })
        .await
        .unwrap();
    }

    /// The UIDs of the PodSet's pods.
    async fn pods(&self) -> Vec<String> {
        let pods = self.read(&["get", "pods", "--selector=app=podset-sample"]).await;
        let uid = |pod: &serde_json::Value| pod["metadata"]["uid"].as_str().unwrap().to_owned();
        pods["items"].as_array().unwrap().iter().map(uid).collect()
    }
}
