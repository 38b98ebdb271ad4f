//! Completes a base backup when everything it needs is in the archive.

use std::collections::{BTreeMap, BTreeSet};

use futures::TryStreamExt;
use postgres_model::{
    archive::{ArchiveObject, BackupId},
    wal_file::WalSegment,
};

use super::{
    list::read_manifest,
    manifest::{Backup, Manifest},
};
use crate::{
    archive::Archive,
    error::ArchiveError,
    store::{Content, Put},
    wal::Row,
};

impl Archive {
    /// Completes a backup: writes its manifest, after everything that a restore needs is in the
    /// archive. Can be repeated.
    ///
    /// # Errors
    /// Returns [`ArchiveError::MissingWal`] if a segment from the begin to the end of the backup is not
    /// archived yet: call it again later. Returns [`ArchiveError::MissingPart`] if a part was deleted,
    /// and [`ArchiveError::Manifest`] if the manifest contradicts itself or the archive.
    pub async fn complete_backup(&self, manifest: &Manifest) -> Result<Put, ArchiveError> {
        let id = &manifest.backup.id;
        let invalid = |reason| ArchiveError::Manifest { backup: id.clone(), reason };
        manifest.validate().map_err(invalid)?;
        if manifest.backup.system != self.system() {
            return Err(invalid("it is a backup of another database".to_owned()));
        }
        if let Some(base) = &manifest.backup.based_on
            && read_manifest(self, base).await?.is_none()
        {
            return Err(invalid(format!("the backup {base}, on which it is based, was deleted")));
        }
        self.check_parts(manifest).await?;
        self.check_wal(&manifest.backup).await?;
        let content = Content::plain(manifest.to_json().map_err(invalid)?);
        Ok(self.store().put(&self.key(ArchiveObject::BackupManifest(id.clone())), &content).await?)
    }

    /// Checks that all parts are in the archive, with their lengths.
    async fn check_parts(&self, manifest: &Manifest) -> Result<(), ArchiveError> {
        let id = &manifest.backup.id;
        let stored = self.stored_parts(id).await?;
        let expected = (0..).zip(&manifest.parts);
        let is_missing = |(number, part): (u32, &super::Part)| {
            (stored.get(&number) != Some(&part.bytes)).then_some(number)
        };
        let missing = expected.into_iter().find_map(is_missing);
        missing.map_or(Ok(()), |part| Err(ArchiveError::MissingPart { backup: id.clone(), part }))
    }

    /// Returns the parts of a backup that are in the archive, and their lengths.
    async fn stored_parts(&self, id: &BackupId) -> Result<BTreeMap<u32, u64>, ArchiveError> {
        let entries = self.store().list(&self.folder(&format!("base/{id}")), None);
        let parts = entries.try_filter_map(|entry| {
            let part = match self.object(&entry.key) {
                Some(ArchiveObject::BackupData { part, .. }) => Some((part, entry.size)),
                _ => None,
            };
            std::future::ready(Ok(part))
        });
        Ok(parts.try_collect().await?)
    }

    /// Checks that all WAL from the begin to the end of the backup is in the archive.
    async fn check_wal(&self, backup: &Backup) -> Result<(), ArchiveError> {
        let missing = |segment| ArchiveError::MissingWal { backup: backup.id.clone(), segment };
        // The history of a timeline is archived before its first segment.
        let history = self.history(backup.end_wal.timeline()).await?;
        let history = history.ok_or_else(|| missing(backup.end_wal))?;
        let row = Row::new(&history, backup.segment_size);
        let (first, last) = (row.number(backup.begin_wal), row.number(backup.end_wal));
        let (Some(first), Some(last)) = (first, last) else { return Err(missing(backup.begin_wal)) };
        let timelines = history.switches().map(|(timeline, _)| timeline).chain([history.timeline()]);
        let mut segments = BTreeSet::new();
        for (begin, end) in timelines.filter_map(|timeline| row.numbers(timeline)) {
            let range = (row.segment(begin.max(first)), row.segment(end.min(last)));
            if let (Some(begin), Some(end)) = range
                && begin.max(end) == end
            {
                segments.extend(self.segments_between(begin, end).await?);
            }
        }
        let found = row.missing(first, last, None, |segment| segments.contains(&segment));
        found.map_or(Ok(()), |segment| Err(missing(segment)))
    }

    /// Returns the archived segments of a timeline from one to another, both included.
    async fn segments_between(
        &self,
        first: WalSegment,
        last: WalSegment,
    ) -> Result<Vec<WalSegment>, ArchiveError> {
        let segments = self.wal_segments(first).map_ok(|found| found.segment);
        let until_last = segments.try_take_while(|segment| std::future::ready(Ok(*segment <= last)));
        until_last.try_collect().await
    }
}
