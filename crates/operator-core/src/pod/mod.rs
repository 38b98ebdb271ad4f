//! A small Pod type, for caches of all Pods of a cluster.

mod labels;
mod message;
mod packed;
mod shared_text;

use std::borrow::Cow;

use k8s_openapi::{
    api::core::v1::Pod,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time},
    jiff::Timestamp,
};
use kube::{Resource, core::NamespaceResourceScope};
pub use labels::Labels;
pub use packed::PackedPod;
use serde::{Deserialize, Deserializer};

/// Annotation that ranks a Pod for deletion when a set shrinks: lower values are deleted first.
pub const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The fields of a Pod that controllers read. Takes a tenth of the memory of a whole Pod.
///
/// The metadata contains name, namespace, UID, resource version, owner references, creation and
/// deletion timestamps, and the annotation [`DELETION_COST`]. Labels have their own field. All
/// other fields are dropped while parsing, so a `PodView` is never written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodView {
    /// The metadata that is kept.
    pub metadata: ObjectMeta,
    /// `metadata.labels`.
    pub labels: Labels,
    /// `spec.nodeName`. Empty while the Pod is not scheduled.
    pub node: String,
    /// `status.phase`.
    pub phase: Phase,
    /// Time since which the Pod is ready, if it is ready.
    pub ready_since: Option<Timestamp>,
    /// Restart count of the container that restarted most often.
    pub restarts: i32,
    /// `status.podIP`. Empty until the Pod has an address.
    pub ip: String,
}

/// Phase of a Pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Phase {
    /// The Pod is accepted, but not all containers have started.
    #[default]
    Pending,
    /// At least one container runs.
    Running,
    /// All containers exited successfully.
    Succeeded,
    /// A container failed and will not be restarted.
    Failed,
    /// The node does not respond.
    #[serde(other)]
    Unknown,
}

impl PodView {
    /// Returns the labels. They are not in the metadata, where `ResourceExt::labels` reads.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Returns whether the Pod has succeeded or failed, so it will not run again.
    pub fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Returns whether the Pod is being deleted.
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Returns whether the Pod is ready.
    pub fn is_ready(&self) -> bool {
        self.ready_since.is_some()
    }

    /// Returns the value of [`DELETION_COST`]. Returns 0 if it is missing or no number.
    pub fn deletion_cost(&self) -> i32 {
        let cost = self.metadata.annotations.as_ref().and_then(|annotations| annotations.get(DELETION_COST));
        cost.and_then(|cost| cost.parse().ok()).unwrap_or_default()
    }
}

impl Resource for PodView {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Pod::kind(&())
    }
    fn group((): &()) -> Cow<'_, str> {
        Pod::group(&())
    }
    fn version((): &()) -> Cow<'_, str> {
        Pod::version(&())
    }
    fn plural((): &()) -> Cow<'_, str> {
        Pod::plural(&())
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl<'de> Deserialize<'de> for PodView {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        RawPod::deserialize(deserializer).map(Self::from)
    }
}

/// The fields of a Pod that are parsed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct RawPod {
    metadata: RawMeta,
    spec: RawSpec,
    status: RawStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawMeta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Labels,
    annotations: RawAnnotations,
    owner_references: Option<Vec<OwnerReference>>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawAnnotations {
    #[serde(rename = "controller.kubernetes.io/pod-deletion-cost")]
    deletion_cost: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSpec {
    node_name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawStatus {
    phase: Phase,
    #[serde(rename = "podIP")]
    pod_ip: String,
    conditions: Vec<RawCondition>,
    container_statuses: Vec<RawContainerStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    last_transition_time: Option<Time>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawContainerStatus {
    restart_count: i32,
}

impl From<RawPod> for PodView {
    fn from(mut pod: RawPod) -> Self {
        let ready = pod.status.conditions.iter().find(|condition| condition.type_ == "Ready");
        let since = |condition: &RawCondition| {
            condition.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
        };
        let restarts = pod.status.container_statuses.iter().map(|status| status.restart_count);
        Self {
            node: pod.spec.node_name,
            phase: pod.status.phase,
            ready_since: ready.filter(|condition| condition.status == "True").map(since),
            restarts: restarts.max().unwrap_or(0),
            ip: pod.status.pod_ip,
            labels: std::mem::take(&mut pod.metadata.labels),
            metadata: pod.metadata.into(),
        }
    }
}

impl From<RawMeta> for ObjectMeta {
    fn from(meta: RawMeta) -> Self {
        let cost = meta.annotations.deletion_cost;
        Self {
            name: meta.name,
            namespace: meta.namespace,
            uid: meta.uid,
            resource_version: meta.resource_version,
            annotations: cost.map(|cost| [(DELETION_COST.to_owned(), cost)].into()),
            owner_references: meta.owner_references,
            creation_timestamp: meta.creation_timestamp,
            deletion_timestamp: meta.deletion_timestamp,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keeps_only_the_fields_that_are_read() {
        let view: PodView = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "web-1", "namespace": "shop", "uid": "u", "resourceVersion": "7",
                "labels": {"app": "web"},
                "annotations": {DELETION_COST: "-5", "other": "dropped"},
                "managedFields": [{"manager": "kubectl"}],
            },
            "spec": {"nodeName": "node-1", "containers": [{"name": "web"}]},
            "status": {
                "phase": "Running", "podIP": "10.0.0.1",
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}],
                "containerStatuses": [{"restartCount": 1}, {"restartCount": 3}],
            },
        }))
        .unwrap();
        assert_eq!(view.deletion_cost(), -5);
        assert_eq!(view.labels().get("app"), Some("web"));
        assert_eq!(view.metadata.annotations.as_ref().unwrap().len(), 1);
        assert!(view.metadata.managed_fields.is_none());
        assert_eq!((view.node.as_str(), view.ip.as_str()), ("node-1", "10.0.0.1"));
        assert!(view.is_ready() && !view.is_finished() && !view.is_terminating());
        assert_eq!(view.restarts, 3);
    }

    #[test]
    fn pod_without_status_is_pending() {
        let view: PodView = serde_json::from_value(json!({"metadata": {"name": "new"}})).unwrap();
        assert_eq!(view.phase, Phase::Pending);
        assert!(!view.is_ready());
        assert_eq!(view.deletion_cost(), 0);
    }
}
