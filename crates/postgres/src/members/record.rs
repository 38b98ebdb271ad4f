//! Writes to volumes what they say about their cluster.

use kube::{ResourceExt, api::Patch};
use operator_core::{kind::uid, write::WriteError};
use serde_json::json;

use super::MemberObjects;
use crate::{
    api::PostgresCluster,
    build::{CLUSTER_LABEL, member_name},
    children::key,
    membership::Serial,
    record::VolumeRecord,
};

impl MemberObjects {
    /// Writes a record to the volume with this UID, unless the volume has changed meanwhile.
    pub(super) async fn record(
        &self,
        cluster: &PostgresCluster,
        serial: Serial,
        volume_uid: &str,
        record: &VolumeRecord,
    ) -> Result<(), WriteError> {
        let key = key(cluster, &member_name(cluster, serial));
        let Some(volume) = self.volumes.get(&key).filter(|volume| uid(volume.as_ref()) == volume_uid) else {
            return Ok(());
        };
        let metadata = json!({
            "uid": volume_uid,
            "resourceVersion": volume.metadata.resource_version,
            "labels": { CLUSTER_LABEL: cluster.name_any() },
            "annotations": record.annotations(&cluster.name_any()),
        });
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        match self.volumes.patch(&key, &patch, "record the members on").await {
            // The cache is behind: the next reconcile sees why.
            Err(error) if error.is_stale_cache() => Ok(()),
            result => result,
        }
    }
}
