//! A small view of pods, for caches that hold every pod of a cluster.

mod labels;

use std::borrow::Cow;

use k8s_openapi::{
    api::core::v1::Pod,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time},
    jiff::Timestamp,
};
use kube::{Resource, core::NamespaceResourceScope};
pub use labels::Labels;
use serde::{Deserialize, Deserializer};

/// The annotation that asks for a pod to go earlier (lower) or later (higher) than others when a set shrinks.
pub const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// What the controllers read of a pod; a tenth of the memory of the whole object.
///
/// The metadata holds name, namespace, UID, resource version, owner references, the two times and the annotation
/// [`DELETION_COST`]; labels are beside it, and all else is dropped while parsing. Views are read, never written back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodView {
    /// The part of the metadata that is kept.
    pub metadata: ObjectMeta,
    /// `metadata.labels`.
    pub labels: Labels,
    /// `spec.nodeName`, empty while the pod is not scheduled.
    pub node: String,
    /// `status.phase`.
    pub phase: Phase,
    /// Since when the pod is ready, if it is.
    pub ready_since: Option<Timestamp>,
    /// How often its containers were restarted, the most restarted one.
    pub restarts: i32,
    /// `status.podIP`, empty until the pod has one.
    pub ip: String,
}

/// The phase of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Phase {
    /// Accepted, not all containers started.
    #[default]
    Pending,
    /// At least one container runs.
    Running,
    /// All containers ended well.
    Succeeded,
    /// A container ended badly and will not be restarted.
    Failed,
    /// The node does not answer.
    #[serde(other)]
    Unknown,
}

impl PodView {
    /// Its labels. They are not in the metadata, where `ResourceExt::labels` would look.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Whether the pod will not run again.
    pub fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Whether deletion of the pod was asked for.
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether the pod is ready to serve.
    pub fn is_ready(&self) -> bool {
        self.ready_since.is_some()
    }

    /// What [`DELETION_COST`] says; 0 if it says nothing or no number.
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
        Wire::deserialize(deserializer).map(Self::from)
    }
}

/// The fields of a pod that are parsed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Wire {
    metadata: WireMeta,
    spec: WireSpec,
    status: WireStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireMeta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Labels,
    annotations: WireAnnotations,
    owner_references: Option<Vec<OwnerReference>>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireAnnotations {
    #[serde(rename = "controller.kubernetes.io/pod-deletion-cost")]
    deletion_cost: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireSpec {
    node_name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireStatus {
    phase: Phase,
    #[serde(rename = "podIP")]
    pod_ip: String,
    conditions: Vec<WireCondition>,
    container_statuses: Vec<WireContainer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    last_transition_time: Option<Time>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireContainer {
    restart_count: i32,
}

impl From<Wire> for PodView {
    fn from(mut wire: Wire) -> Self {
        let ready = wire.status.conditions.iter().find(|condition| condition.type_ == "Ready");
        let since = |condition: &WireCondition| {
            condition.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
        };
        Self {
            node: wire.spec.node_name,
            phase: wire.status.phase,
            ready_since: ready.filter(|condition| condition.status == "True").map(since),
            restarts: wire
                .status
                .container_statuses
                .iter()
                .map(|status| status.restart_count)
                .max()
                .unwrap_or(0),
            ip: wire.status.pod_ip,
            labels: std::mem::take(&mut wire.metadata.labels),
            metadata: wire.metadata.into(),
        }
    }
}

impl From<WireMeta> for ObjectMeta {
    fn from(wire: WireMeta) -> Self {
        let cost = wire.annotations.deletion_cost;
        Self {
            name: wire.name,
            namespace: wire.namespace,
            uid: wire.uid,
            resource_version: wire.resource_version,
            annotations: cost.map(|cost| [(DELETION_COST.to_owned(), cost)].into()),
            owner_references: wire.owner_references,
            creation_timestamp: wire.creation_timestamp,
            deletion_timestamp: wire.deletion_timestamp,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_view_keeps_what_is_read_and_drops_the_rest() {
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
    fn a_pod_that_nobody_has_looked_at_is_pending() {
        let view: PodView = serde_json::from_value(json!({"metadata": {"name": "new"}})).unwrap();
        assert_eq!(view.phase, Phase::Pending);
        assert!(!view.is_ready());
        assert_eq!(view.deletion_cost(), 0);
    }
}
