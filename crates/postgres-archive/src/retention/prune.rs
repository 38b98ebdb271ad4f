//! Removes what is no longer needed, in an order that can be interrupted.

use futures::{
    StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use postgres_model::{
    archive::{ArchiveObject, BackupId},
    wal_file::WalFileName,
};

use super::{FirstWal, RetentionPlan};
use crate::{archive::Archive, error::ArchiveError};

/// Objects that are deleted at the same time.
const DELETES: usize = 8;

/// What [`Archive::prune`] removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Complete backups.
    pub backups: u64,
    /// Parts of backups.
    pub parts: u64,
    /// Files of WAL.
    pub wal: u64,
}

impl Archive {
    /// Removes what a retention found.
    ///
    /// The manifest of a backup goes first, so a backup that lacks parts is never taken for complete. Those of
    /// younger backups go before those of older ones, on which they can be based.
    /// Then its parts go, and after all of them the WAL. If this is interrupted at any point, repeat it
    /// with this plan or a new one: the result is the same. Timeline histories, the marker, and objects
    /// of other programs stay.
    ///
    /// # Errors
    /// Returns an error if the store cannot be reached within the deadline, or denies a deletion.
    pub async fn prune(&self, plan: &RetentionPlan) -> Result<Pruned, ArchiveError> {
        let mut pruned = Pruned::default();
        for id in plan.backups.iter().rev() {
            self.store().delete(&self.key(ArchiveObject::BackupManifest(id.clone()))).await?;
            pruned.backups += 1;
        }
        for id in plan.backups.iter().chain(&plan.incomplete) {
            pruned.parts += self.delete_parts(id).await?;
        }
        if let Some(first) = plan.first_wal {
            pruned.wal = self.delete_wal(first).await?;
        }
        Ok(pruned)
    }

    /// Deletes WAL before the first that stays, and before the begin of every complete backup. A backup
    /// may have become complete since the plan was made.
    async fn delete_wal(&self, planned: FirstWal) -> Result<u64, ArchiveError> {
        let Some(present) = self.backups().await?.first_wal() else { return Ok(0) };
        let goes = move |object: &ArchiveObject| match object {
            ArchiveObject::Wal(
                WalFileName::Segment(segment)
                | WalFileName::Partial(segment)
                | WalFileName::Backup { segment, .. },
            ) => planned.is_after(*segment) && present.is_after(*segment),
            _ => false,
        };
        let objects = self.objects(&self.folder("wal"));
        self.delete_all(objects.try_filter(move |object| std::future::ready(goes(object))).boxed()).await
    }

    /// Deletes the parts of a backup, unless it has a manifest. Returns their number.
    async fn delete_parts(&self, id: &BackupId) -> Result<u64, ArchiveError> {
        let objects: Vec<_> = self.objects(&self.folder(&format!("base/{id}"))).try_collect().await?;
        // An incomplete backup may have become complete since the plan was made.
        if objects.contains(&ArchiveObject::BackupManifest(id.clone())) {
            return Ok(0);
        }
        self.delete_all(stream::iter(objects).map(Ok).boxed()).await
    }

    /// Lists the objects of this archive in a folder.
    fn objects(&self, folder: &str) -> BoxStream<'static, Result<ArchiveObject, ArchiveError>> {
        let (archive, entries) = (self.clone(), self.store().list(folder, None));
        let objects = entries.try_filter_map(move |entry| std::future::ready(Ok(archive.object(&entry.key))));
        objects.map_err(ArchiveError::from).boxed()
    }

    async fn delete_all(
        &self,
        objects: BoxStream<'static, Result<ArchiveObject, ArchiveError>>,
    ) -> Result<u64, ArchiveError> {
        let deletes = objects.map_ok(|object| async move {
            Ok::<_, ArchiveError>(self.store().delete(&self.key(object)).await?)
        });
        deletes.try_buffer_unordered(DELETES).try_fold(0, async |count, ()| Ok(count + 1)).await
    }
}
