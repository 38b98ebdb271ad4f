//! What a kubelet does and a simulated node does not: to look again at pods of which nothing has come.
//!
//! kwok tries again where a connection is refused, and does not where one breaks in the midst of a request or a request fails:
//! when the API server or etcd ends, a pod of that moment stays as it is. Any change of the pod makes its node look again.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;
use tokio::time::timeout;

use crate::oracle::TOUCHED;

/// How long a pod may stay as it is until its node is reminded: far longer than a node takes for it.
const STUCK: Duration = Duration::from_secs(4);
/// How long the API server may take for all requests of one look.
const LOOK: Duration = Duration::from_secs(2);

/// Reminds simulated nodes of pods that they have yet to start or to end.
pub struct Reminder {
    pods: Api<Pod>,
    /// Since when there are the versions of pods that wait for their nodes.
    since: HashMap<String, Instant>,
}

impl Reminder {
    /// Of the pods of a namespace. None has waited yet.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self { pods: Api::namespaced(client, namespace), since: HashMap::new() }
    }

    /// Looks once, and reminds the nodes of the pods that have waited for long. While the API server does not answer, nothing is
    /// known to have waited.
    pub async fn look(&mut self) {
        match timeout(LOOK, self.pods.list(&ListParams::default())).await {
            Ok(Ok(pods)) => {
                let pods = self.stuck(pods.items, Instant::now());
                // Those that it does not come to are found again.
                let _ = timeout(LOOK, self.touch(&pods)).await;
            }
            _ => self.since.clear(),
        }
    }

    /// The pods that are as they were some time ago and wait for their nodes.
    fn stuck(&mut self, mut pods: Vec<Pod>, now: Instant) -> Vec<Pod> {
        pods.retain(waits);
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

    /// Changes what concerns nobody of pods that are still as they were seen.
    async fn touch(&self, pods: &[Pod]) {
        for pod in pods {
            let version = pod.resource_version();
            let metadata = json!({
                "uid": pod.uid(), "resourceVersion": version, "annotations": { TOUCHED: version },
            });
            let patch = Patch::Merge(json!({ "metadata": metadata }));
            // A pod that is another by now is not stuck, and one that could not be touched is found again.
            let _ = self.pods.patch_metadata(&pod.name_any(), &PatchParams::default(), &patch).await;
        }
    }
}

/// Whether it is its node's turn: to start a pod, or to end one that nobody else holds.
fn waits(pod: &Pod) -> bool {
    if pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none()) {
        return false;
    }
    if pod.metadata.deletion_timestamp.is_some() {
        return pod.metadata.deletion_grace_period_seconds != Some(0);
    }
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Pending")
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

    fn reminder() -> Reminder {
        let config = kube::Config::new(http::Uri::from_static("http://localhost"));
        Reminder::new(Client::try_from(config).unwrap(), "n")
    }

    #[tokio::test]
    async fn a_node_is_reminded_of_what_is_its_turn_and_has_not_moved_for_a_while() {
        let deleted = |grace: i64| json!({ "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": grace });
        let pods = || {
            vec![
                pod("bound", "1", json!({}), Some("node"), "Pending"),
                pod("ends", "2", deleted(30), Some("node"), "Running"),
                pod("held", "3", deleted(0), Some("node"), "Running"),
                pod("runs", "4", json!({}), Some("node"), "Running"),
                pod("unscheduled", "5", json!({}), None, "Pending"),
            ]
        };
        let names = |pods: Vec<Pod>| pods.iter().map(ResourceExt::name_any).collect::<Vec<_>>();
        let (mut reminder, now) = (reminder(), Instant::now());
        assert_eq!(names(reminder.stuck(pods(), now)), [] as [String; 0], "none has waited");
        assert_eq!(names(reminder.stuck(pods(), now + STUCK)), ["bound", "ends"]);
        let mut moved = pods();
        moved[0].metadata.resource_version = Some("9".to_owned());
        assert_eq!(names(reminder.stuck(moved, now + STUCK)), ["ends"], "the other has moved");
        assert_eq!(names(reminder.stuck(Vec::new(), now + STUCK)), [] as [String; 0]);
        assert_eq!(names(reminder.stuck(pods(), now + STUCK)), [] as [String; 0], "seen anew");
    }
}
