//! Writes a file from the archive: verified, and complete or not at all.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use postgres_model::{system_identifier::SystemIdentifier, wal_file::WalFileName};
use tempfile::{Builder, NamedTempFile};
use tokio::sync::mpsc::Receiver;

use super::{is_plain, max_bytes, prepare::check_start};
use crate::{
    checksum::{Checksum, Hasher},
    compression::Decompressor,
    error::{ArchiveError, Damage},
    wal_header::HEADER,
};

/// Prefix of the temporary file. PostgreSQL removes such files from `pg_wal` when it starts after a
/// crash (`RemoveTempXlogFiles`), so none is left for ever.
const TEMPORARY: &str = "xlogtemp.";

/// File to write, and what its content must be.
pub(super) struct Expected {
    pub(super) key: String,
    pub(super) name: WalFileName,
    pub(super) system: SystemIdentifier,
    pub(super) checksum: Checksum,
    pub(super) destination: PathBuf,
}

impl Expected {
    /// Writes the pieces of an object until the channel is closed. Blocks.
    ///
    /// # Errors
    /// Returns an error if the content is not what is expected, as after a transfer that broke, or the
    /// file cannot be written. The destination is unchanged then.
    pub(super) fn write(&self, pieces: Receiver<Bytes>) -> Result<(), ArchiveError> {
        let folder = match self.destination.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let file = Builder::new().prefix(TEMPORARY).tempfile_in(folder);
        let file = file.map_err(|error| self.file_error(error))?;
        let mut output = Output { file, hasher: Hasher::new(), start: Vec::new(), length: 0 };
        if is_plain(self.name) {
            self.copy(pieces, &mut output)?;
        } else {
            self.decompress(pieces, &mut output)?;
        }
        let file = self.verified(output)?;
        file.as_file().sync_all().map_err(|error| self.file_error(error))?;
        file.persist(&self.destination).map_err(|error| self.file_error(error.error))?;
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| self.file_error(error))
    }

    fn copy(&self, mut pieces: Receiver<Bytes>, output: &mut Output) -> Result<(), ArchiveError> {
        while let Some(piece) = pieces.blocking_recv() {
            self.push(output, &piece)?;
        }
        Ok(())
    }

    fn decompress(&self, mut pieces: Receiver<Bytes>, output: &mut Output) -> Result<(), ArchiveError> {
        let damaged = |error: io::Error| self.damaged(Damage::Content(error.to_string()));
        let mut decompressor = Decompressor::new().map_err(damaged)?;
        while let Some(mut piece) = pieces.blocking_recv() {
            loop {
                let bytes = decompressor.next(&mut piece).map_err(damaged)?;
                if bytes.is_empty() && piece.is_empty() {
                    break;
                }
                self.push(output, bytes)?;
            }
        }
        if decompressor.is_finished() { Ok(()) } else { Err(self.damaged(Damage::Truncated)) }
    }

    fn push(&self, output: &mut Output, bytes: &[u8]) -> Result<(), ArchiveError> {
        let limit = max_bytes(self.name);
        output.length += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if output.length > limit {
            return Err(self.damaged(Damage::TooLong(limit)));
        }
        output.push(bytes).map_err(|error| self.file_error(error))
    }

    /// Returns the file if its content is what is expected.
    fn verified(&self, output: Output) -> Result<NamedTempFile, ArchiveError> {
        if output.hasher.finish() != self.checksum {
            return Err(self.damaged(Damage::Checksum));
        }
        let checked = check_start(self.name, &output.start, output.length, self.system);
        checked.map_err(|error| self.damaged(Damage::Wal(error)))?;
        Ok(output.file)
    }

    fn damaged(&self, damage: Damage) -> ArchiveError {
        ArchiveError::damaged(&self.key, damage)
    }

    fn file_error(&self, source: io::Error) -> ArchiveError {
        ArchiveError::file("write", &self.destination, source)
    }
}

/// File that is being written. It is removed unless it is complete.
struct Output {
    file: NamedTempFile,
    hasher: Hasher,
    /// First bytes of the content.
    start: Vec<u8>,
    length: u64,
}

impl Output {
    fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        let missing = HEADER.saturating_sub(self.start.len());
        self.start.extend(bytes.iter().take(missing));
        self.hasher.update(bytes);
        self.file.write_all(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::compression::{Pieces, encoder};

    fn expected(folder: &Path, name: &str, content: &[u8]) -> Expected {
        Expected {
            key: "db/1/wal".to_owned(),
            name: name.parse().unwrap(),
            system: SystemIdentifier(1),
            checksum: Checksum::of(content),
            destination: folder.join("RECOVERYXLOG"),
        }
    }

    /// Writes pieces as if they came from the store.
    fn write(expected: &Expected, object: &[u8]) -> Result<(), ArchiveError> {
        let (sender, receiver) = tokio::sync::mpsc::channel(object.len() + 1);
        object.chunks(7).for_each(|piece| sender.try_send(Bytes::copy_from_slice(piece)).unwrap());
        drop(sender);
        expected.write(receiver)
    }

    fn compressed(content: &[u8]) -> Vec<u8> {
        let mut encoder = encoder(Pieces::default()).unwrap();
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap().into_inner().concat()
    }

    fn damage(result: Result<(), ArchiveError>) -> Damage {
        match result {
            Err(ArchiveError::Damaged { damage, .. }) => damage,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn file_replaces_the_destination_when_it_is_verified() {
        let folder = tempfile::tempdir().unwrap();
        let content = b"1\t0/3000000\tno recovery target specified\n";
        fs::write(folder.path().join("RECOVERYXLOG"), "old").unwrap();
        write(&expected(folder.path(), "00000002.history", content), content).unwrap();
        assert_eq!(fs::read(folder.path().join("RECOVERYXLOG")).unwrap(), content);
        let backup = expected(folder.path(), "000000020000000000000003.00000028.backup", b"label");
        write(&backup, &compressed(b"label")).unwrap();
        assert_eq!(fs::read(folder.path().join("RECOVERYXLOG")).unwrap(), b"label");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn damaged_content_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let backup = expected(folder.path(), "000000020000000000000003.00000028.backup", b"label");
        let object = compressed(b"label");
        assert_eq!(damage(write(&backup, &compressed(b"other"))), Damage::Checksum);
        assert_eq!(damage(write(&backup, &object[..object.len() - 1])), Damage::Truncated);
        assert_eq!(damage(write(&backup, b"")), Damage::Truncated);
        let twice = [&object[..], &object[..]].concat();
        assert!(matches!(damage(write(&backup, &twice)), Damage::Content(_)));
        assert!(matches!(damage(write(&backup, b"no zstd")), Damage::Content(_)));
        let bomb = vec![0; 2 << 20];
        assert_eq!(damage(write(&backup, &compressed(&bomb))), Damage::TooLong(1 << 20));
        let segment = expected(folder.path(), "000000020000000000000003", &bomb);
        assert!(matches!(damage(write(&segment, &compressed(&bomb))), Damage::Wal(_)));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn missing_folder_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let history = expected(&folder.path().join("none"), "00000002.history", b"");
        let error = write(&history, b"").unwrap_err().to_string();
        assert!(error.contains("cannot write") && error.contains("RECOVERYXLOG"), "{error}");
    }
}
