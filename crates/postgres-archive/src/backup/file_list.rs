//! Lists of the files of base backups, as PostgreSQL writes them.

use std::io::{self, Write};

use bytes::{Buf, Bytes};
use postgres_model::archive::{ArchiveObject, BackupId};

use super::{
    manifest::{Manifest, Part},
    reader::verified,
    writer::put,
};
use crate::{
    archive::Archive,
    blocking::blocking,
    compression::{Decompressor, encoder},
    error::{ArchiveError, Damage},
};

/// Most bytes of a list: about 400,000 files.
pub const MAX_FILE_LIST_BYTES: usize = 64 << 20;

impl Archive {
    /// Writes the list of the files of a backup.
    ///
    /// # Errors
    /// Returns an error if the store cannot be reached within the deadline.
    pub async fn write_file_list(&self, id: &BackupId, list: Vec<u8>) -> Result<Part, ArchiveError> {
        let key = self.key(ArchiveObject::BackupFileList(id.clone()));
        let compressed = blocking(&key, move || compress(&list)).await?;
        let compressed = compressed.map_err(|source| ArchiveError::Stream { backup: id.clone(), source })?;
        put(self, &key, compressed).await
    }

    /// Reads the list of the files of a backup: `None` if it has none.
    ///
    /// # Errors
    /// Returns [`ArchiveError::Damaged`] if the list is missing or not what the manifest says.
    pub async fn file_list(&self, manifest: &Manifest) -> Result<Option<Vec<u8>>, ArchiveError> {
        let Some(expected) = manifest.file_list else { return Ok(None) };
        let key = self.key(ArchiveObject::BackupFileList(manifest.backup.id.clone()));
        let compressed = verified(self, &key, expected).await?;
        let list = blocking(&key, move || decompress(compressed)).await?;
        list.map(Some).map_err(|error| ArchiveError::damaged(key, Damage::Content(error.to_string())))
    }
}

fn compress(list: &[u8]) -> io::Result<Bytes> {
    let mut encoder = encoder(Vec::new())?;
    encoder.write_all(list)?;
    Ok(encoder.finish()?.into())
}

fn decompress(mut compressed: Bytes) -> io::Result<Vec<u8>> {
    let (mut decompressor, mut list) = (Decompressor::new()?, Vec::new());
    loop {
        let piece = decompressor.next(&mut compressed)?;
        list.extend_from_slice(piece);
        if list.len() > MAX_FILE_LIST_BYTES {
            return Err(io::Error::other(format!("more than {MAX_FILE_LIST_BYTES} bytes")));
        }
        if piece.is_empty() && !compressed.has_remaining() {
            let is_whole = decompressor.is_finished();
            return if is_whole { Ok(list) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_what_was_compressed() {
        let list = b"{\"PostgreSQL-Backup-Manifest-Version\": 2}".repeat(100_000);
        let compressed = compress(&list).unwrap();
        assert_eq!(decompress(compressed.clone()).unwrap(), list);
        assert!(decompress(compressed.slice(..compressed.len() - 1)).is_err());
        assert_eq!(decompress(compress(b"").unwrap()).unwrap(), b"");
    }

    #[test]
    fn list_has_a_limit() {
        let compressed = compress(&vec![0; MAX_FILE_LIST_BYTES + 1]).unwrap();
        assert!(decompress(compressed).unwrap_err().to_string().contains("more than"));
    }
}
