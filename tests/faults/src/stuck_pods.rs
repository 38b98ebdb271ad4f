//! Retries stuck Pods for simulated nodes, as a kubelet does.
//!
//! kwok retries refused connections, but not requests that fail in progress. After an outage of the
//! API server or etcd, such a Pod is stuck until it changes. A terminated Pod that is not yet
//! removed is deleted again by UID.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions},
};
use serde_json::json;
use tokio::time::timeout;

use crate::oracle::TOUCHED_ANNOTATION;

/// Time after which an unchanged Pod counts as stuck: far longer than a node needs.
const STUCK: Duration = Duration::from_secs(4);
/// Timeout for all requests of one check.
const LOOK: Duration = Duration::from_secs(2);

/// Retries Pods that simulated nodes have yet to start or to stop.
pub struct StuckPodRetrier {
    pods: Api<Pod>,
    /// When each version of a waiting Pod was first seen.
    since: HashMap<String, Instant>,
}

impl StuckPodRetrier {
    /// Creates a retrier for the Pods of a namespace.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self { pods: Api::namespaced(client, namespace), since: HashMap::new() }
    }

    /// Checks all Pods once and retries the stuck ones. A failed check resets nothing.
    pub async fn look(&mut self) {
        match timeout(LOOK, self.pods.list(&ListParams::default())).await {
            Ok(Ok(pods)) => {
                let pods = self.stuck(pods.items, Instant::now());
                // Remaining Pods are found by the next check.
                let _ = timeout(LOOK, self.retry(&pods)).await;
            }
            _ => self.since.clear(),
        }
    }

    /// Returns the Pods that have not changed for some time and wait for their nodes.
    fn stuck(&mut self, mut pods: Vec<Pod>, now: Instant) -> Vec<Pod> {
        pods.retain(|pod| remedy(pod).is_some());
        let since = |pod: &Pod| {
            let version = pod.resource_version()?;
            let since = self.since.get(&version).copied().unwrap_or(now);
            Some((version, since))
        };
        self.since = pods.iter().filter_map(since).collect();
        let has_waited = |since: &Instant| now.saturating_duration_since(*since) >= STUCK;
        pods.retain(|pod| {
            pod.resource_version().is_some_and(|it| self.since.get(&it).is_some_and(has_waited))
        });
        pods
    }

    /// Retries Pods, if they are unchanged.
    async fn retry(&self, pods: &[Pod]) {
        for pod in pods {
            // A changed Pod is not stuck. A failed request is repeated by the next check.
            let _ = match remedy(pod) {
                Some(Remedy::Look) => self.touch(pod).await,
                Some(Remedy::Deletion) => self.delete(pod).await,
                None => Ok(()),
            };
        }
    }

    /// Modifies the Pod without an effect on controllers.
    async fn touch(&self, pod: &Pod) -> kube::Result<()> {
        let version = pod.resource_version();
        let metadata = json!({
            "uid": pod.uid(), "resourceVersion": version, "annotations": { TOUCHED_ANNOTATION: version },
        });
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        self.pods.patch_metadata(&pod.name_any(), &PatchParams::default(), &patch).await.map(drop)
    }

    async fn delete(&self, pod: &Pod) -> kube::Result<()> {
        let preconditions = Preconditions { uid: pod.uid(), resource_version: pod.resource_version() };
        let how =
            DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() }.grace_period(0);
        self.pods.delete(&pod.name_any(), &how).await.map(drop)
    }
}

/// What a stuck Pod needs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Remedy {
    /// Its node must start or stop it.
    Look,
    /// Its node stopped it, and it must be deleted.
    Deletion,
}

/// Returns what a Pod waits for, if it waits for its node.
fn remedy(pod: &Pod) -> Option<Remedy> {
    pod.spec.as_ref()?.node_name.as_ref()?;
    if pod.metadata.deletion_timestamp.is_none() {
        let phase = pod.status.as_ref()?.phase.as_deref();
        return (phase == Some("Pending")).then_some(Remedy::Look);
    }
    match pod.metadata.deletion_grace_period_seconds {
        Some(0) => pod.finalizers().is_empty().then_some(Remedy::Deletion),
        _ => Some(Remedy::Look),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, version: &str, metadata: Value, node: Option<&str>, phase: &str) -> Pod {
        let mut pod: Pod = serde_json::from_value(json!({
            "metadata": metadata, "spec": { "containers": [], "nodeName": node }, "status": { "phase": phase },
        }))
        .unwrap();
        pod.metadata.name = Some(name.to_owned());
        pod.metadata.resource_version = Some(version.to_owned());
        pod
    }

    fn retrier() -> StuckPodRetrier {
        let config = kube::Config::new(http::Uri::from_static("http://localhost"));
        StuckPodRetrier::new(Client::try_from(config).unwrap(), "n")
    }

    #[tokio::test]
    async fn retries_only_stuck_pods() {
        let deleted = |grace: i64| json!({ "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": grace });
        let pods = || {
            let mut held = deleted(0);
            held["finalizers"] = json!(["x.test/held"]);
            vec![
                pod("bound", "1", json!({}), Some("node"), "Pending"),
                pod("ends", "2", deleted(30), Some("node"), "Running"),
                pod("held", "3", held, Some("node"), "Running"),
                pod("runs", "4", json!({}), Some("node"), "Running"),
                pod("unscheduled", "5", json!({}), None, "Pending"),
                pod("ended", "6", deleted(0), Some("node"), "Running"),
            ]
        };
        let names = |pods: Vec<Pod>| pods.iter().map(ResourceExt::name_any).collect::<Vec<_>>();
        let (mut retrier, now) = (retrier(), Instant::now());
        assert_eq!(names(retrier.stuck(pods(), now)), [] as [String; 0], "no Pod has waited");
        assert_eq!(names(retrier.stuck(pods(), now + STUCK)), ["bound", "ends", "ended"]);
        let mut moved = pods();
        moved[0].metadata.resource_version = Some("9".to_owned());
        assert_eq!(names(retrier.stuck(moved, now + STUCK)), ["ends", "ended"], "the first has changed");
        assert_eq!(names(retrier.stuck(Vec::new(), now + STUCK)), [] as [String; 0]);
        assert_eq!(names(retrier.stuck(pods(), now + STUCK)), [] as [String; 0], "seen anew");
    }
}
