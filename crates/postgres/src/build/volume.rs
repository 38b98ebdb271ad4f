//! The volume of a member.
//!
//! It has no owner reference, so it survives the deletion of the cluster. Its annotations say which
//! cluster used it: see the module `record`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements,
};
use kube::{ResourceExt, core::ObjectMeta};
use operator_core::kind::uid;

use super::{CLUSTER_UID, member_labels, member_name};
use crate::{api::PostgresCluster, membership::Serial};

/// Returns the volume of a new member with annotations that name its cluster.
pub(crate) fn new(
    cluster: &PostgresCluster,
    serial: Serial,
    annotations: BTreeMap<String, String>,
) -> PersistentVolumeClaim {
    let storage = &cluster.spec.storage;
    let metadata = ObjectMeta {
        name: Some(member_name(cluster, serial)),
        namespace: cluster.namespace(),
        labels: Some(member_labels(cluster, serial)),
        annotations: Some(annotations),
        ..ObjectMeta::default()
    };
    let spec = PersistentVolumeClaimSpec {
        access_modes: Some(vec![storage.access_mode.as_str().to_owned()]),
        storage_class_name: storage.storage_class_name.clone(),
        resources: Some(VolumeResourceRequirements {
            requests: Some([("storage".to_owned(), storage.size.clone())].into()),
            ..VolumeResourceRequirements::default()
        }),
        ..PersistentVolumeClaimSpec::default()
    };
    PersistentVolumeClaim { metadata, spec: Some(spec), status: None }
}

/// Returns whether the volume belongs to this cluster, and not to another of its name.
pub(crate) fn is_of(volume: &PersistentVolumeClaim, cluster: &PostgresCluster) -> bool {
    volume.annotations().get(CLUSTER_UID) == Some(&uid(cluster))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{api::fixture::cluster, record::tests::record};

    #[test]
    fn volume_has_the_storage_of_the_spec_and_no_owner() {
        let cluster = cluster(&json!({"storage": {"size": "10Gi", "storageClassName": "fast"}}));
        let volume = new(&cluster, 2, record("u-1", &[1, 2]).annotations("db"));
        assert_eq!(volume.metadata.owner_references, None);
        assert!(is_of(&volume, &cluster));
        insta::assert_yaml_snapshot!(volume);
    }

    #[test]
    fn volume_of_an_earlier_cluster_of_the_same_name_is_recognized() {
        let mut later = cluster(&json!({}));
        let volume = new(&later, 1, record("u-1", &[1]).annotations("db"));
        later.metadata.uid = Some("u-2".into());
        assert!(!is_of(&volume, &later));
    }
}
