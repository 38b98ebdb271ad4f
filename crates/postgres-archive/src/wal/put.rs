//! Archives files of `pg_wal`, for `archive_command`.

use std::path::Path;

use postgres_model::{archive::ArchiveObject, wal_file::WalFileName};

use super::prepare::prepare;
use crate::{archive::Archive, blocking::blocking, error::ArchiveError, store::Put};

impl Archive {
    /// Archives a file of `pg_wal`. Returns when the store has it, and `archive_command` may succeed.
    ///
    /// A segment must have the size that its first page names, and its first page must be that of its
    /// name and of this database. All files but timeline histories are compressed. A file that is
    /// archived already with the same content is success.
    ///
    /// Takes as much memory as the compressed file, which is at most a little more than the file.
    ///
    /// # Errors
    /// Returns an error if the file is not what its name says, or the store cannot be reached within
    /// the deadline, or [`StoreError::Conflict`](crate::StoreError::Conflict) if other content is
    /// archived under the name.
    pub async fn archive_wal(&self, name: WalFileName, path: &Path) -> Result<Put, ArchiveError> {
        let (system, path) = (self.system(), path.to_owned());
        let content = blocking(&name.to_string(), move || prepare(name, &path, system)).await??;
        Ok(self.store().put(&self.key(ArchiveObject::Wal(name)), &content).await?)
    }
}
