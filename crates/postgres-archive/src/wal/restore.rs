//! Restores files of `pg_wal`, for `restore_command`.

use std::path::Path;

use futures::TryStreamExt;
use postgres_model::{archive::ArchiveObject, wal_file::WalFileName};
use tokio::sync::mpsc;

use super::{max_bytes, write::Expected};
use crate::{
    archive::Archive,
    blocking::blocking,
    error::{ArchiveError, Damage},
    store::{AttemptError, Failure, Object, Operation},
};

/// Pieces of an object that wait to be written.
const QUEUE: usize = 4;

/// Result of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Restore {
    /// The file is at the destination.
    Restored,
    /// The archive does not have the file. PostgreSQL asks for files that may not exist.
    NotFound,
}

impl Archive {
    /// Restores a file of `pg_wal` to a destination, which is replaced.
    ///
    /// The content is decompressed while it arrives, into a file beside the destination. It is renamed
    /// when its checksum and its first page are verified and it is durable, so the destination is
    /// complete or unchanged.
    ///
    /// # Errors
    /// Returns an error if the object is damaged, the file cannot be written, or the store cannot be
    /// reached within the deadline.
    pub async fn restore_wal(&self, name: WalFileName, destination: &Path) -> Result<Restore, ArchiveError> {
        let key = self.key(ArchiveObject::Wal(name));
        self.store().retry(Operation::Get, &key, || self.restore_once(name, &key, destination)).await
    }

    async fn restore_once(
        &self,
        name: WalFileName,
        key: &str,
        destination: &Path,
    ) -> Result<Restore, AttemptError<ArchiveError>> {
        let Some(object) = self.store().open(key).await.map_err(AttemptError::widen)? else {
            return Ok(Restore::NotFound);
        };
        let damaged = |damage| AttemptError::Final(ArchiveError::damaged(key, damage));
        let checksum = object.checksum.ok_or_else(|| damaged(Damage::NoChecksum))?;
        // Compression makes no content much longer.
        let limit = max_bytes(name) + (1 << 20);
        if object.size > limit {
            return Err(damaged(Damage::TooLong(limit)));
        }
        let destination = destination.to_owned();
        let expected = Expected { key: key.to_owned(), name, system: self.system(), checksum, destination };
        let (sender, receiver) = mpsc::channel(QUEUE);
        let write = blocking(key, move || expected.write(receiver));
        let (sent, written) = tokio::join!(send(object, sender), write);
        // A transfer that broke is the cause of content that is not verified.
        sent?;
        written.and_then(|written| written).map_err(AttemptError::Final)?;
        Ok(Restore::Restored)
    }
}

/// Sends the pieces of an object until it ends, or nobody takes them.
async fn send(mut object: Object, sender: mpsc::Sender<bytes::Bytes>) -> Result<(), Failure> {
    while let Some(piece) = object.pieces.try_next().await? {
        if sender.send(piece).await.is_err() {
            break;
        }
    }
    Ok(())
}
