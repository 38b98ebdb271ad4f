//! The credentials of the object store, which members read as files.

use k8s_openapi::api::core::v1::{
    KeyToPath, ProjectedVolumeSource, SecretProjection, Volume, VolumeMount, VolumeProjection,
};

use crate::api::{BackupStore, PostgresCluster, SecretKey};

/// Name of the volume.
const VOLUME: &str = "archive";
/// Where it is mounted.
const PATH: &str = "/etc/ensemble/archive";
/// Mode of the files.
const MODE: i32 = 0o440;

/// Returns the volume of a cluster that archives. A Secret that does not exist keeps no database from
/// starting: the kubelet adds its file later.
pub(super) fn volume(cluster: &PostgresCluster) -> Option<Volume> {
    let store = &cluster.spec.backup.as_ref()?.object_store;
    let source = |(file, secret): (&str, &SecretKey)| VolumeProjection {
        secret: Some(SecretProjection {
            name: secret.name.clone(),
            items: Some(vec![KeyToPath { key: secret.key.clone(), path: file.to_owned(), mode: None }]),
            optional: Some(true),
        }),
        ..VolumeProjection::default()
    };
    let sources = files(store).map(source).collect();
    let projected = ProjectedVolumeSource { sources: Some(sources), default_mode: Some(MODE) };
    Some(Volume { name: VOLUME.to_owned(), projected: Some(projected), ..Volume::default() })
}

/// Returns where the volume is mounted.
pub(super) fn mount(cluster: &PostgresCluster) -> Option<VolumeMount> {
    cluster.spec.backup.as_ref()?;
    let (name, mount_path) = (VOLUME.to_owned(), PATH.to_owned());
    Some(VolumeMount { name, mount_path, read_only: Some(true), ..VolumeMount::default() })
}

/// Returns the Secrets and keys that a running Pod cannot follow.
pub(super) fn references(cluster: &PostgresCluster) -> Option<Vec<(&str, &SecretKey)>> {
    Some(files(&cluster.spec.backup.as_ref()?.object_store).collect())
}

/// Returns the names of the files, and what they contain. The instance manager has the same names.
fn files(store: &BackupStore) -> impl Iterator<Item = (&'static str, &SecretKey)> {
    let credentials = &store.credentials;
    let keys = [
        ("access-key-id", &credentials.access_key_id),
        ("secret-access-key", &credentials.secret_access_key),
    ];
    keys.into_iter().chain(store.ca_secret.as_ref().map(|secret| ("ca.crt", secret)))
}
