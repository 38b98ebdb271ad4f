//! The credentials of the object store, which members read as files.

use k8s_openapi::api::core::v1::{
    KeyToPath, ProjectedVolumeSource, SecretProjection, Volume, VolumeMount, VolumeProjection,
};

use crate::api::{BackupStore, PostgresCluster, SecretKey};

/// Mode of the files.
const MODE: i32 = 0o440;

/// An object store whose credentials a Pod mounts.
struct Mounted<'a> {
    store: &'a BackupStore,
    /// Name of the volume.
    name: &'static str,
    /// Where it is mounted.
    path: &'static str,
}

/// Returns the object stores of a cluster: that of its archive, and the one that it recovers from.
fn mounted(cluster: &PostgresCluster) -> impl Iterator<Item = Mounted<'_>> {
    let archive = cluster.spec.backup.as_ref().map(|backup| &backup.object_store);
    let archive = archive.map(|store| Mounted { store, name: "archive", path: "/etc/ensemble/archive" });
    let recovery = cluster.status.as_ref().and_then(|status| status.recovery.as_ref());
    let source = recovery.filter(|recovery| !recovery.done).map(|recovery| Mounted {
        store: &recovery.object_store,
        name: "recovery",
        path: "/etc/ensemble/recovery",
    });
    archive.into_iter().chain(source)
}

/// Returns the volumes with the credentials. A Secret that does not exist keeps no database from
/// starting: the kubelet adds its file later.
pub(super) fn volumes(cluster: &PostgresCluster) -> impl Iterator<Item = Volume> {
    mounted(cluster).map(|mounted| {
        let source = |(file, secret): (&str, &SecretKey)| VolumeProjection {
            secret: Some(SecretProjection {
                name: secret.name.clone(),
                items: Some(vec![KeyToPath { key: secret.key.clone(), path: file.to_owned(), mode: None }]),
                optional: Some(true),
            }),
            ..VolumeProjection::default()
        };
        let sources = files(mounted.store).map(source).collect();
        let projected = ProjectedVolumeSource { sources: Some(sources), default_mode: Some(MODE) };
        Volume { name: mounted.name.to_owned(), projected: Some(projected), ..Volume::default() }
    })
}

/// Returns where the volumes are mounted.
pub(super) fn mounts(cluster: &PostgresCluster) -> impl Iterator<Item = VolumeMount> {
    mounted(cluster).map(|Mounted { name, path, .. }| VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    })
}

/// Returns the Secrets and keys that a running Pod cannot follow. Those of a recovery are left out: after
/// it, no Pod needs them.
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
