//! Which base backups the archive has.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};
use postgres_model::archive::{ArchiveObject, BackupId};

use super::manifest::{Backup, MAX_MANIFEST, Manifest, ManifestError, VERSION};
use crate::{
    archive::Archive,
    error::{ArchiveError, Damage},
    store::{Operation, StoreError},
};

/// Most backups in a listing.
const MAX_BACKUPS: usize = 10_000;
/// Manifests that are read at the same time.
const READS: usize = 2;

/// Base backups in the archive, each list in the order of the identifiers: oldest first.
#[derive(Debug, Default)]
pub struct Backups {
    /// Complete backups.
    pub complete: Vec<Backup>,
    /// Backups without a manifest: they are being written, or were given up, or are half deleted.
    pub incomplete: Vec<BackupId>,
    /// Backups with a manifest that cannot be used.
    pub unreadable: Vec<UnreadableBackup>,
}

/// Backup whose manifest is damaged, or of another version.
#[derive(Debug)]
pub struct UnreadableBackup {
    /// Identifier.
    pub id: BackupId,
    /// Why the manifest cannot be used.
    pub error: ArchiveError,
}

impl Archive {
    /// Returns the backups. Objects of other programs are ignored.
    ///
    /// # Errors
    /// Returns an error if there are more than 10,000 backups, or the store cannot be reached within
    /// the deadline. A manifest that cannot be used is no error.
    pub async fn backups(&self) -> Result<Backups, ArchiveError> {
        let ids = self.backup_ids().await?;
        let (complete, incomplete): (Vec<_>, Vec<_>) =
            ids.into_iter().partition(|(_, is_complete)| *is_complete);
        let mut manifests = stream::iter(complete)
            .map(|(id, _)| async move {
                let manifest = read_manifest(self, &id).await;
                (id, manifest)
            })
            .buffered(READS);
        let incomplete = incomplete.into_iter().map(|(id, _)| id).collect();
        let mut backups = Backups { incomplete, ..Backups::default() };
        while let Some((id, manifest)) = manifests.next().await {
            match manifest {
                Ok(Some(manifest)) => backups.complete.push(manifest.backup),
                // Deleted since it was listed.
                Ok(None) => backups.incomplete.push(id),
                Err(error @ ArchiveError::Store(StoreError::TooLarge { .. })) => {
                    backups.unreadable.push(UnreadableBackup { id, error });
                }
                Err(error @ ArchiveError::Store(_)) => return Err(error),
                Err(error) => backups.unreadable.push(UnreadableBackup { id, error }),
            }
        }
        backups.incomplete.sort_unstable();
        Ok(backups)
    }

    /// Returns the identifiers, and whether each has a manifest.
    async fn backup_ids(&self) -> Result<BTreeMap<BackupId, bool>, ArchiveError> {
        let folder = self.folder("base");
        let mut entries = std::pin::pin!(self.store().list(&folder, None));
        let mut ids = BTreeMap::new();
        while let Some(entry) = entries.try_next().await? {
            let (id, is_manifest) = match self.object(&entry.key) {
                Some(ArchiveObject::BackupManifest(id)) => (id, true),
                Some(ArchiveObject::BackupData { backup, .. } | ArchiveObject::BackupFileList(backup)) => {
                    (backup, false)
                }
                _ => continue,
            };
            *ids.entry(id).or_default() |= is_manifest;
            if ids.len() > MAX_BACKUPS {
                let limit = u64::try_from(MAX_BACKUPS).unwrap_or(u64::MAX);
                let operation = Operation::List;
                return Err(StoreError::TooLarge { operation, key: folder, limit, unit: "backups" }.into());
            }
        }
        Ok(ids)
    }
}

/// Reads a manifest. Returns `None` if there is none.
pub(super) async fn read_manifest(
    archive: &Archive,
    id: &BackupId,
) -> Result<Option<Manifest>, ArchiveError> {
    let key = archive.key(ArchiveObject::BackupManifest(id.clone()));
    let Some(found) = archive.store().read(&key, MAX_MANIFEST).await? else { return Ok(None) };
    let manifest = match Manifest::parse(&found.bytes) {
        Ok(manifest) => manifest,
        Err(ManifestError::Version(version)) => {
            return Err(ArchiveError::Version { key, version, supported: VERSION });
        }
        Err(ManifestError::Content(cause)) => {
            return Err(ArchiveError::damaged(key, Damage::Content(cause)));
        }
    };
    if manifest.backup.id != *id || manifest.backup.system != archive.system() {
        let cause = "it is the manifest of another backup or another database".to_owned();
        return Err(ArchiveError::damaged(key, Damage::Content(cause)));
    }
    Ok(Some(manifest))
}
