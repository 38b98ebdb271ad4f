//! Reads the data of a base backup, verified part by part.

use std::io;

use bytes::Bytes;
use futures::stream;
use postgres_model::archive::{ArchiveObject, BackupId};
use tokio::io::AsyncRead;
use tokio_util::io::StreamReader;

use super::{
    list::read_manifest,
    manifest::{Manifest, Part},
};
use crate::{
    archive::Archive,
    blocking::blocking,
    checksum::Checksum,
    compression::Decompressor,
    error::{ArchiveError, Damage},
};

/// Reads the tar stream of a base backup.
///
/// A part is read into memory, and nothing of it is decompressed before its checksum is verified.
pub struct BackupReader {
    archive: Archive,
    manifest: Manifest,
    /// Number of the part that is read next.
    next: u32,
    /// What is left of the current part.
    part: Bytes,
    decompressor: Decompressor,
    raw_bytes: u64,
}

impl Archive {
    /// Reads the manifest of a complete backup.
    ///
    /// # Errors
    /// Returns [`ArchiveError::NoBackup`] if there is no manifest, and other errors if it cannot be
    /// used, or belongs to another database.
    pub async fn manifest(&self, id: &BackupId) -> Result<Manifest, ArchiveError> {
        read_manifest(self, id).await?.ok_or_else(|| ArchiveError::NoBackup(id.clone()))
    }

    /// Returns a reader of the data of a backup. Sends nothing.
    ///
    /// # Errors
    /// Returns an error if there is no memory for the decompression.
    pub fn read_backup(&self, manifest: Manifest) -> Result<BackupReader, ArchiveError> {
        let decompressor = Decompressor::new();
        let decompressor = decompressor
            .map_err(|source| ArchiveError::Stream { backup: manifest.backup.id.clone(), source })?;
        let part = Bytes::new();
        Ok(BackupReader { archive: self.clone(), manifest, next: 0, part, decompressor, raw_bytes: 0 })
    }
}

impl BackupReader {
    /// Returns the next piece of the tar stream: `None` at its end, when all checksums and lengths are
    /// verified.
    ///
    /// # Errors
    /// Returns [`ArchiveError::Damaged`] with the key of a part that is missing or not what the manifest
    /// says. What was returned before is verified, but the backup cannot be used.
    pub async fn next_piece(&mut self) -> Result<Option<Bytes>, ArchiveError> {
        loop {
            let piece = self.decompress()?;
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
            if self.part.is_empty() && !self.next_part().await? {
                return self.verify_end().map(|()| None);
            }
        }
    }

    /// Returns the stream as a reader. Its errors contain an [`ArchiveError`].
    pub fn into_async_read(self) -> impl AsyncRead + Send + Unpin {
        let pieces = stream::try_unfold(self, async |mut reader| {
            let piece = reader.next_piece().await.map_err(io::Error::other)?;
            Ok::<_, io::Error>(piece.map(|piece| (piece, reader)))
        });
        StreamReader::new(Box::pin(pieces))
    }

    fn decompress(&mut self) -> Result<Bytes, ArchiveError> {
        let piece = self.decompressor.next(&mut self.part).map(Bytes::copy_from_slice);
        let piece = piece.map_err(|error| self.damaged(Damage::Content(error.to_string())))?;
        self.raw_bytes += u64::try_from(piece.len()).unwrap_or(u64::MAX);
        let limit = self.manifest.backup.raw_bytes;
        if self.raw_bytes > limit { Err(self.damaged(Damage::TooLong(limit))) } else { Ok(piece) }
    }

    /// Reads the next part and verifies it. Returns whether there was one.
    async fn next_part(&mut self) -> Result<bool, ArchiveError> {
        let number = usize::try_from(self.next).unwrap_or(usize::MAX);
        let Some(expected) = self.manifest.parts.get(number).copied() else { return Ok(false) };
        let key = self.key(self.next);
        // Lets go of the memory of the last part, of which nothing is left.
        self.part = Bytes::new();
        self.part = verified(&self.archive, &key, expected).await?;
        self.next += 1;
        Ok(true)
    }

    fn verify_end(&self) -> Result<(), ArchiveError> {
        let is_complete = self.decompressor.is_finished() && self.raw_bytes == self.manifest.backup.raw_bytes;
        if is_complete { Ok(()) } else { Err(self.damaged(Damage::Truncated)) }
    }

    /// Returns the error of the part that was read last.
    fn damaged(&self, damage: Damage) -> ArchiveError {
        ArchiveError::damaged(self.key(self.next.saturating_sub(1)), damage)
    }

    fn key(&self, part: u32) -> String {
        self.archive.key(ArchiveObject::BackupData { backup: self.manifest.backup.id.clone(), part })
    }
}

/// Reads an object of a backup, and verifies its length and its checksum.
pub(super) async fn verified(archive: &Archive, key: &str, expected: Part) -> Result<Bytes, ArchiveError> {
    let damaged = |damage| ArchiveError::damaged(key, damage);
    let found = archive.store().read(key, expected.bytes).await?;
    let bytes = Bytes::from(found.ok_or_else(|| damaged(Damage::Missing))?.bytes);
    if u64::try_from(bytes.len()).ok() != Some(expected.bytes) {
        return Err(damaged(Damage::Truncated));
    }
    let hashed = bytes.clone();
    let checksum = blocking(key, move || Checksum::of(&hashed)).await?;
    if checksum == expected.sha256 { Ok(bytes) } else { Err(damaged(Damage::Checksum)) }
}
