//! What a kubelet does and a simulated node does not: to look again at pods of which nothing has come.
//!
//! kwok tries again where a connection is refused, and does not where one breaks in the midst of a request or a request fails:
//! when the API server or etcd ends, a pod of that moment stays as it is. Any change of the pod makes its node look again. What a
//! node has ended, and the API server has marked and not yet taken away, is deleted again, with its UID.

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
                let _ = timeout(LOOK, self.remind(&pods)).await;
            }
            _ => self.since.clear(),
        }
    }

    /// The pods that are as they were some time ago and wait for their nodes.
    fn stuck(&mut self, mut pods: Vec<Pod>, now: Instant) -> Vec<Pod> {
        pods.retain(|pod| turn(pod).is_some());
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

    /// Does for pods what it is the turn of, if they are still as they were seen.
    async fn remind(&self, pods: &[Pod]) {
        for pod in pods {
            // A pod that is another by now is not stuck, and one that could not be reached is found again.
            let _ = match turn(pod) {
                Some(Turn::Look) => self.touch(pod).await,
                Some(Turn::Deletion) => self.delete(pod).await,
                None => Ok(()),
            };
        }
    }

    /// Changes what concerns nobody.
    async fn touch(&self, pod: &Pod) -> kube::Result<()> {
        let version = pod.resource_version();
        let metadata = json!({
            "uid": pod.uid(), "resourceVersion": version, "annotations": { TOUCHED: version },
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

/// What it is the turn of.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Turn {
    /// Its node has to look at it: to start it, or to end it.
    Look,
    /// Its node has ended it, and it has to be deleted for good.
    Deletion,
}

/// What a pod waits for that is nobody else's.
fn turn(pod: &Pod) -> Option<Turn> {
    pod.spec.as_ref()?.node_name.as_ref()?;
    if pod.metadata.deletion_timestamp.is_none() {
        let phase = pod.status.as_ref()?.phase.as_deref();
        return (phase == Some("Pending")).then_some(Turn::Look);
    }
    match pod.metadata.deletion_grace_period_seconds {
        Some(0) => pod.finalizers().is_empty().then_some(Turn::Deletion),
        _ => Some(Turn::Look),
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

    fn reminder() -> Reminder {
        let config = kube::Config::new(http::Uri::from_static("http://localhost"));
        Reminder::new(Client::try_from(config).unwrap(), "n")
    }

    #[tokio::test]
    async fn a_node_is_reminded_of_what_is_its_turn_and_has_not_moved_for_a_while() {
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
        let (mut reminder, now) = (reminder(), Instant::now());
        assert_eq!(names(reminder.stuck(pods(), now)), [] as [String; 0], "none has waited");
        assert_eq!(names(reminder.stuck(pods(), now + STUCK)), ["bound", "ends", "ended"]);
        let mut moved = pods();
        moved[0].metadata.resource_version = Some("9".to_owned());
        assert_eq!(names(reminder.stuck(moved, now + STUCK)), ["ends", "ended"], "the first has moved");
        assert_eq!(names(reminder.stuck(Vec::new(), now + STUCK)), [] as [String; 0]);
        assert_eq!(names(reminder.stuck(pods(), now + STUCK)), [] as [String; 0], "seen anew");
    }
}
