//! The queries for metrics of users, which members read as files.

use k8s_openapi::api::core::v1::{ConfigMapVolumeSource, Volume, VolumeMount};

use crate::api::PostgresCluster;

/// Name of the volume.
const NAME: &str = "queries";
/// Where it is mounted.
const PATH: &str = "/etc/ensemble/queries";

/// Returns the name of the ConfigMap, if the spec has one.
pub(super) fn config_map(cluster: &PostgresCluster) -> Option<&str> {
    cluster.spec.monitoring.queries_config_map.as_deref()
}

/// Returns the volume with the queries. A ConfigMap that does not exist keeps no database from starting:
/// the kubelet adds its files later.
pub(super) fn volume(cluster: &PostgresCluster) -> Option<Volume> {
    let source = ConfigMapVolumeSource {
        name: config_map(cluster)?.to_owned(),
        optional: Some(true),
        ..ConfigMapVolumeSource::default()
    };
    Some(Volume { name: NAME.to_owned(), config_map: Some(source), ..Volume::default() })
}

/// Returns where the volume is mounted.
pub(super) fn mount(cluster: &PostgresCluster) -> Option<VolumeMount> {
    config_map(cluster).map(|_| VolumeMount {
        name: NAME.to_owned(),
        mount_path: PATH.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    })
}
