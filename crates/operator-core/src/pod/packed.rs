//! The packed form of a Pod.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time},
    jiff::Timestamp,
};
use serde::{Deserialize, Serialize};

use super::{DELETION_COST, Labels, Phase, PodView};
use crate::informer::Pack;

/// The fields of a [`PodView`] in a row, without pointers. Takes a quarter of the memory.
#[derive(Serialize, Deserialize)]
struct PackedPod<'a> {
    name: Option<&'a str>,
    namespace: Option<&'a str>,
    uid: Option<&'a str>,
    resource_version: Option<&'a str>,
    #[serde(borrow)]
    owners: Option<Vec<PackedOwner<'a>>>,
    created: Option<Moment>,
    deleted: Option<Moment>,
    deletion_cost: Option<&'a str>,
    labels: &'a str,
    node: &'a str,
    phase: Phase,
    ready_since: Option<Moment>,
    restarts: i32,
    ip: &'a str,
}

#[derive(Serialize, Deserialize)]
struct PackedOwner<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
    uid: &'a str,
    controller: Option<bool>,
    block_owner_deletion: Option<bool>,
}

/// Seconds since 1970 and nanoseconds.
#[derive(Serialize, Deserialize)]
struct Moment(i64, i32);

impl Pack for PodView {
    fn pack(&self) -> Option<Box<[u8]>> {
        let ObjectMeta { name, namespace, uid, resource_version, .. } = &self.metadata;
        let owners = self.metadata.owner_references.as_deref();
        let moment = |time: &Option<Time>| time.as_ref().map(|time| time.0.into());
        let packed = PackedPod {
            name: name.as_deref(),
            namespace: namespace.as_deref(),
            uid: uid.as_deref(),
            resource_version: resource_version.as_deref(),
            owners: owners.map(|owners| owners.iter().map(PackedOwner::from).collect()),
            created: moment(&self.metadata.creation_timestamp),
            deleted: moment(&self.metadata.deletion_timestamp),
            deletion_cost: self
                .metadata
                .annotations
                .as_ref()
                .and_then(|annotations| annotations.get(DELETION_COST))
                .map(String::as_str),
            labels: self.labels.as_text(),
            node: &self.node,
            phase: self.phase,
            ready_since: self.ready_since.map(Into::into),
            restarts: self.restarts,
            ip: &self.ip,
        };
        postcard::to_allocvec(&packed).ok().map(Vec::into_boxed_slice)
    }

    fn unpack(packed: &[u8]) -> Option<Self> {
        let pod: PackedPod<'_> = postcard::from_bytes(packed).ok()?;
        let time = |moment: Option<Moment>| moment.map(|moment| moment.try_into().map(Time)).transpose().ok();
        let annotation = |cost: &str| [(DELETION_COST.to_owned(), cost.to_owned())].into();
        Some(Self {
            metadata: ObjectMeta {
                name: pod.name.map(str::to_owned),
                namespace: pod.namespace.map(str::to_owned),
                uid: pod.uid.map(str::to_owned),
                resource_version: pod.resource_version.map(str::to_owned),
                owner_references: pod.owners.map(|owners| owners.into_iter().map(Into::into).collect()),
                creation_timestamp: time(pod.created)?,
                deletion_timestamp: time(pod.deleted)?,
                annotations: pod.deletion_cost.map(annotation),
                ..ObjectMeta::default()
            },
            labels: Labels::from_text(pod.labels),
            node: pod.node.to_owned(),
            phase: pod.phase,
            ready_since: time(pod.ready_since)?.map(|time| time.0),
            restarts: pod.restarts,
            ip: pod.ip.to_owned(),
        })
    }
}

impl<'a> From<&'a OwnerReference> for PackedOwner<'a> {
    fn from(owner: &'a OwnerReference) -> Self {
        let OwnerReference { api_version, kind, name, uid, controller, block_owner_deletion } = owner;
        let (controller, block_owner_deletion) = (*controller, *block_owner_deletion);
        Self { api_version, kind, name, uid, controller, block_owner_deletion }
    }
}

impl From<PackedOwner<'_>> for OwnerReference {
    fn from(owner: PackedOwner<'_>) -> Self {
        Self {
            api_version: owner.api_version.to_owned(),
            kind: owner.kind.to_owned(),
            name: owner.name.to_owned(),
            uid: owner.uid.to_owned(),
            controller: owner.controller,
            block_owner_deletion: owner.block_owner_deletion,
        }
    }
}

impl From<Timestamp> for Moment {
    fn from(time: Timestamp) -> Self {
        Self(time.as_second(), time.subsec_nanosecond())
    }
}

impl TryFrom<Moment> for Timestamp {
    type Error = k8s_openapi::jiff::Error;

    fn try_from(Moment(seconds, nanoseconds): Moment) -> Result<Self, Self::Error> {
        Self::new(seconds, nanoseconds)
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::btree_map, option, prelude::*};
    use serde_json::json;

    use super::*;

    proptest! {
        #[test]
        fn unpacked_pod_is_equal(
            texts in proptest::array::uniform8(option::of(".{0,40}")),
            labels in btree_map("[a-z./-]{1,20}", "[A-Za-z0-9._-]{0,10}", 0..5),
            seconds in proptest::array::uniform3(option::of(0_i64..4_000_000_000)),
            phase in proptest::sample::select(vec!["Pending", "Running", "Succeeded", "Failed", "Unknown", "New"]),
            restarts: i32,
            owners in 0_usize..3,
        ) {
            let [name, namespace, uid, version, node, ip, cost, owner] = texts;
            let [created, deleted, ready] = seconds.map(|time| {
                time.map(|time| Timestamp::from_second(time).unwrap().to_string())
            });
            let owner = owner.unwrap_or_default();
            let reference = json!({ "apiVersion": "a/v1", "kind": "A", "name": owner, "uid": owner, "controller": true });
            let mut pod = json!({
                "metadata": {
                    "name": name, "namespace": namespace, "uid": uid, "resourceVersion": version, "labels": labels,
                    "creationTimestamp": created, "deletionTimestamp": deleted,
                    "ownerReferences": vec![reference; owners],
                },
                "spec": { "nodeName": node.unwrap_or_default() },
                "status": {
                    "phase": phase, "podIP": ip.unwrap_or_default(),
                    "containerStatuses": [{ "restartCount": restarts }],
                },
            });
            if let Some(cost) = cost {
                pod["metadata"]["annotations"] = json!({ DELETION_COST: cost });
            }
            if let Some(ready) = ready {
                pod["status"]["conditions"] =
                    json!([{ "type": "Ready", "status": "True", "lastTransitionTime": ready }]);
            }
            let pod: PodView = serde_json::from_value(pod).unwrap();
            prop_assert_eq!(PodView::unpack(&pod.pack().unwrap()), Some(pod));
        }
    }

    #[test]
    fn pod_of_a_controller_takes_a_quarter_of_a_kibibyte() {
        let pod: PodView = serde_json::from_value(json!({
            "metadata": {
                "name": "podset-sample-pod-x7k2p", "namespace": "default", "resourceVersion": "1234567",
                "uid": "0d5d7c9e-0000-4000-8000-000000000001", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": { "app": "podset-sample", "app.kubernetes.io/managed-by": "ensemble" },
                "ownerReferences": [{
                    "apiVersion": "app.example.com/v1alpha1", "kind": "PodSet", "name": "podset-sample",
                    "uid": "0d5d7c9e-0000-4000-8000-000000000002", "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": { "nodeName": "worker-1" },
            "status": {
                "phase": "Running", "podIP": "10.244.0.7",
                "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
            },
        }))
        .unwrap();
        let size = pod.pack().unwrap().len();
        assert!(size <= 288, "{size} bytes");
    }

    #[test]
    fn garbage_is_no_pod() {
        assert_eq!(PodView::unpack(b"garbage"), None);
    }
}
