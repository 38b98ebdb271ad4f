//! The backup that an incremental one is based on.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use postgres_archive::{Archive, Chains};
use postgres_model::{archive::BackupId, incremental, version::Version};

use super::{
    backup::BackupTools,
    context::{Context, Role},
};
use crate::durable;

/// Most backups of a chain. A recovery downloads all of them.
const MAX_CHAIN: usize = 100;
/// Name of the file with the list, in the folder of sockets.
const FILE: &str = ".ensemble.backup_manifest";

/// A backup that an incremental one is based on. Dropping it removes the file.
pub(super) struct Base {
    pub(super) id: BackupId,
    /// File with the list of its files, which `pg_basebackup` reads.
    pub(super) file_list: PathBuf,
}

impl Drop for Base {
    fn drop(&mut self) {
        // The next one overwrites it.
        let _ = std::fs::remove_file(&self.file_list);
    }
}

impl BackupTools {
    /// Returns the newest backup on the history of the database, or the reason why an incremental one cannot be
    /// based on it.
    pub(super) async fn base(
        &self,
        archive: &Archive,
        context: &Context,
        version: Version,
    ) -> Result<Result<Base, String>> {
        if version.major() < incremental::FIRST_MAJOR {
            let first = incremental::FIRST_MAJOR;
            return Ok(Err(format!(
                "PostgreSQL {version} has no incremental backups, and {first} is the first"
            )));
        }
        let (Role::Primary(history) | Role::Follower(history)) = &context.role else {
            return Ok(Err("the history of the database is not known".to_owned()));
        };
        let backups = archive.backups().await?;
        let Some(newest) = backups.newest_on(history) else {
            return Ok(Err("the archive has no backup on the history of the database".to_owned()));
        };
        let id = &newest.id;
        if newest.server_version.major() != version.major() {
            return Ok(Err(format!("the backup {id} is of PostgreSQL {}", newest.server_version)));
        }
        match Chains::new(&backups.complete).of(id) {
            None => return Ok(Err(format!("the archive lacks a backup on which {id} is based"))),
            Some(chain) if chain.len() >= MAX_CHAIN => {
                return Ok(Err(format!("a recovery from {id} already needs {MAX_CHAIN} backups")));
            }
            Some(_) => {}
        }
        let Some(list) = archive.file_list(&archive.manifest(id).await?).await? else {
            return Ok(Err(format!("the archive has no list of the files of the backup {id}")));
        };
        let base = Base { id: id.clone(), file_list: self.socket.join(FILE) };
        durable::write(&base.file_list, &list, 0o600)
            .with_context(|| format!("cannot write {}", base.file_list.display()))?;
        Ok(Ok(base))
    }
}
