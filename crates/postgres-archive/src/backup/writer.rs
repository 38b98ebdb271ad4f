//! Writes the data of a base backup: compressed, and cut into parts.

use std::io::{self, Write};

use bytes::Bytes;
use object_store::PutPayload;
use postgres_model::archive::{ArchiveObject, BackupId};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::manifest::{MAX_PART, MAX_PARTS, Part};
use crate::{
    archive::Archive,
    blocking::blocking,
    checksum::Checksum,
    compression::{Encoder, encoder},
    error::ArchiveError,
    store::Content,
};

/// Bytes of a part unless another size is chosen.
const PART: usize = 32 << 20;
/// Smallest part.
const MIN_PART: usize = 1 << 10;
/// Bytes that are read and compressed at once.
const CHUNK: usize = 1 << 20;

/// Writes the data of a base backup.
///
/// Takes as much memory as one part and a few MiB: a part is uploaded before the next one is compressed.
#[derive(Debug)]
pub struct BackupWriter {
    archive: Archive,
    id: BackupId,
    part_bytes: usize,
}

/// Data of a backup that is in the store, for its manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupData {
    /// Bytes of the tar stream.
    pub raw_bytes: u64,
    /// Bytes of all parts.
    pub stored_bytes: u64,
    /// The parts.
    pub parts: Vec<Part>,
}

impl BackupWriter {
    /// Returns a writer of parts of 32 MiB. Sends nothing.
    pub fn new(archive: Archive, id: BackupId) -> Self {
        Self { archive, id, part_bytes: PART }
    }

    /// Sets the bytes of a part: from 1 KiB to 1 GiB. A backup has at most 100,000 parts.
    #[must_use]
    pub fn part_bytes(mut self, bytes: usize) -> Self {
        self.part_bytes = bytes.clamp(MIN_PART, usize::try_from(MAX_PART).unwrap_or(usize::MAX));
        self
    }

    /// Reads a tar stream to its end, and writes it. The backup is not complete before
    /// [`Archive::complete_backup`].
    ///
    /// A second writer with the same identifier ends with a conflict at its first part that differs.
    ///
    /// # Errors
    /// Returns an error if the stream ends with one, there are too many parts, or the store cannot be
    /// reached within the deadline of a part. The parts that are in the store stay there, and
    /// [`Archive::prune`] removes them.
    pub async fn write(self, mut tar: impl AsyncRead + Unpin + Send) -> Result<BackupData, ArchiveError> {
        let mut data = BackupData { raw_bytes: 0, stored_bytes: 0, parts: Vec::new() };
        let mut encoder = encoder(Parts::new(self.part_bytes)).map_err(|source| self.stream_error(source))?;
        loop {
            let mut chunk = Vec::with_capacity(CHUNK);
            let read =
                (&mut tar).take(u64::try_from(CHUNK).unwrap_or_default()).read_to_end(&mut chunk).await;
            let read = read.map_err(|source| self.stream_error(source))?;
            if read == 0 {
                break;
            }
            data.raw_bytes += u64::try_from(read).unwrap_or_default();
            encoder = self.compress(encoder, chunk).await?;
            while let Some(part) = encoder.get_mut().next() {
                self.put(part, &mut data).await?;
            }
        }
        let parts = blocking(&self.id.to_string(), move || encoder.finish()).await?;
        let mut parts = parts.map_err(|source| self.stream_error(source))?;
        while let Some(part) = parts.next() {
            self.put(part, &mut data).await?;
        }
        let last = parts.last();
        if !last.is_empty() {
            self.put(last, &mut data).await?;
        }
        Ok(data)
    }

    async fn compress(
        &self,
        mut encoder: Encoder<Parts>,
        chunk: Vec<u8>,
    ) -> Result<Encoder<Parts>, ArchiveError> {
        let compress = move || encoder.write_all(&chunk).map(|()| encoder);
        let compressed = blocking(&self.id.to_string(), compress).await?;
        compressed.map_err(|source| self.stream_error(source))
    }

    async fn put(&self, part: Vec<u8>, data: &mut BackupData) -> Result<(), ArchiveError> {
        let number = u32::try_from(data.parts.len()).ok().filter(|_| data.parts.len() < MAX_PARTS);
        let number =
            number.ok_or_else(|| ArchiveError::TooManyParts { backup: self.id.clone(), limit: MAX_PARTS })?;
        let key = self.archive.key(ArchiveObject::BackupData { backup: self.id.clone(), part: number });
        let part = put(&self.archive, &key, part.into()).await?;
        data.stored_bytes += part.bytes;
        data.parts.push(part);
        Ok(())
    }

    fn stream_error(&self, source: io::Error) -> ArchiveError {
        ArchiveError::Stream { backup: self.id.clone(), source }
    }
}

/// Writes an object of a backup. Returns its length and its checksum.
pub(super) async fn put(archive: &Archive, key: &str, bytes: Bytes) -> Result<Part, ArchiveError> {
    let hashed = bytes.clone();
    let checksum = blocking(key, move || Checksum::of(&hashed)).await?;
    let part = Part { bytes: u64::try_from(bytes.len()).unwrap_or_default(), sha256: checksum };
    let content = Content { payload: PutPayload::from_bytes(bytes), checksum };
    archive.store().put(key, &content).await?;
    Ok(part)
}

/// Compressed data that is cut into parts.
struct Parts {
    bytes: usize,
    data: Vec<u8>,
}

impl Parts {
    fn new(bytes: usize) -> Self {
        Self { bytes, data: Vec::with_capacity(bytes + CHUNK) }
    }

    /// Returns the next full part.
    fn next(&mut self) -> Option<Vec<u8>> {
        if self.data.len() < self.bytes {
            return None;
        }
        let mut rest = Vec::with_capacity(self.bytes + CHUNK);
        rest.extend(self.data.drain(self.bytes..));
        Some(std::mem::replace(&mut self.data, rest))
    }

    /// Returns what is left, which is less than a part.
    fn last(self) -> Vec<u8> {
        self.data
    }
}

impl Write for Parts {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.data.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_cut_into_equal_parts() {
        let mut parts = Parts::new(4);
        parts.write_all(b"abcdefghij").unwrap();
        assert_eq!(parts.next().unwrap(), b"abcd");
        assert_eq!(parts.next().unwrap(), b"efgh");
        assert_eq!(parts.next(), None);
        parts.write_all(b"kl").unwrap();
        assert_eq!(parts.next().unwrap(), b"ijkl");
        assert_eq!(parts.last(), b"");
    }
}
