//! What a cache keeps of a Pod.

use std::sync::Arc;

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time},
    jiff::Timestamp,
};

use super::{DELETION_COST, Labels, Phase, PodView, message::PodMessage, shared_text::shared};
use crate::{informer::Pack, kind::ObjectKey, protobuf::Protobuf};

/// End of each part of a text. A Pod with a part that contains it is not packed.
const END: char = '\n';

/// A [`PodView`] with its texts in one allocation, and those that its siblings have once for all of them: a third
/// of the memory.
pub struct PackedPod {
    /// UID, resource version, node, address, and [`DELETION_COST`].
    own: Box<str>,
    /// The owner references.
    owners: Arc<str>,
    labels: Labels,
    created_at: Option<Timestamp>,
    deleted_at: Option<Timestamp>,
    ready_since: Option<Timestamp>,
    restarts: i32,
    phase: Phase,
}

impl Pack for PodView {
    type Packed = PackedPod;

    const PROTOBUF: Option<Protobuf> = Some(Protobuf::of::<PodMessage>());

    fn pack(&self) -> Option<PackedPod> {
        let meta = &self.metadata;
        let own = [
            meta.uid.as_deref().unwrap_or_default(),
            meta.resource_version.as_deref().unwrap_or_default(),
            &self.node,
            &self.ip,
            meta.annotations
                .iter()
                .flatten()
                .find(|(key, _)| *key == DELETION_COST)
                .map_or("", |(_, cost)| cost),
        ];
        let owners = meta.owner_references.iter().flatten().flat_map(parts_of_owner);
        let time = |time: &Option<Time>| time.as_ref().map(|time| time.0);
        Some(PackedPod {
            own: join(own)?.into_boxed_str(),
            owners: shared(&join(owners)?),
            labels: self.labels.clone(),
            created_at: time(&meta.creation_timestamp),
            deleted_at: time(&meta.deletion_timestamp),
            ready_since: self.ready_since,
            restarts: self.restarts,
            phase: self.phase,
        })
    }

    fn unpack(key: &ObjectKey, packed: &PackedPod) -> Self {
        let mut own = packed.own.split_terminator(END);
        let mut next = || own.next().unwrap_or_default().to_owned();
        let (uid, resource_version, node, ip, cost) = (next(), next(), next(), next(), next());
        let filled = |text: String| Some(text).filter(|text| !text.is_empty());
        let owners = owners(&packed.owners);
        let metadata = ObjectMeta {
            name: Some(key.name().to_owned()),
            namespace: key.namespace().map(str::to_owned),
            uid: filled(uid),
            resource_version: filled(resource_version),
            annotations: filled(cost).map(|cost| [(DELETION_COST.to_owned(), cost)].into()),
            owner_references: Some(owners).filter(|owners| !owners.is_empty()),
            creation_timestamp: packed.created_at.map(Time),
            deletion_timestamp: packed.deleted_at.map(Time),
            ..ObjectMeta::default()
        };
        Self {
            metadata,
            labels: packed.labels.clone(),
            node,
            phase: packed.phase,
            ready_since: packed.ready_since,
            restarts: packed.restarts,
            ip,
        }
    }
}

/// Returns the parts with their ends, or `None` if one contains an end.
fn join<'a>(parts: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut text = String::new();
    for part in parts {
        if part.contains(END) {
            return None;
        }
        text.push_str(part);
        text.push(END);
    }
    Some(text)
}

fn parts_of_owner(owner: &OwnerReference) -> [&str; 6] {
    let OwnerReference { api_version, kind, name, uid, controller, block_owner_deletion } = owner;
    [api_version, kind, name, uid, text_of_flag(*controller), text_of_flag(*block_owner_deletion)]
}

fn owners(text: &str) -> Vec<OwnerReference> {
    let mut owners = Vec::new();
    let mut parts = text.split_terminator(END);
    while let Some(api_version) = parts.next() {
        let mut next = || parts.next().unwrap_or_default();
        owners.push(OwnerReference {
            api_version: api_version.to_owned(),
            kind: next().to_owned(),
            name: next().to_owned(),
            uid: next().to_owned(),
            controller: flag(next()),
            block_owner_deletion: flag(next()),
        });
    }
    owners
}

fn text_of_flag(flag: Option<bool>) -> &'static str {
    match flag {
        None => "",
        Some(true) => "true",
        Some(false) => "false",
    }
}

fn flag(text: &str) -> Option<bool> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a Pod whose owners have this name, with all fields set.
    fn pod(owner: &str) -> PodView {
        let owner = |controller: Option<bool>| {
            json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": "o",
                "controller": controller, "blockOwnerDeletion": true,
            })
        };
        serde_json::from_value(json!({
            "metadata": {
                "name": "web-1", "namespace": "shop", "uid": "u", "resourceVersion": "7",
                "labels": { "app": "web" }, "annotations": { DELETION_COST: "-5" },
                "ownerReferences": [owner(Some(true)), owner(Some(false)), owner(None)],
                "creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": "2026-01-02T03:04:06Z",
            },
            "spec": { "nodeName": "node-1" },
            "status": {
                "phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [{ "restartCount": 3 }],
                "conditions": [
                    { "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05.678Z" },
                ],
            },
        }))
        .unwrap()
    }

    fn packed(pod: &PodView) -> Option<PodView> {
        pod.pack().map(|packed| PodView::unpack(&ObjectKey::of(pod), &packed))
    }

    #[test]
    fn unpacks_what_was_packed() {
        let pod = pod("web");
        assert_eq!(packed(&pod).unwrap(), pod);
        let new: PodView =
            serde_json::from_value(json!({ "metadata": { "name": "new", "namespace": "shop" } })).unwrap();
        assert_eq!(packed(&new).unwrap(), new);
    }

    #[test]
    fn pod_with_the_separator_in_a_text_is_kept_as_it_is() {
        assert_eq!(packed(&pod("web\n")), None);
    }

    #[test]
    fn siblings_share_labels_and_owners() {
        let [one, two] = [pod("web"), pod("web")].map(|pod| pod.pack().unwrap());
        assert!(Arc::ptr_eq(&one.owners, &two.owners));
        assert!(!Arc::ptr_eq(&one.owners, &pod("shop").pack().unwrap().owners));
    }
}
