//! The backup that an incremental one is based on.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
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
    /// Returns the newest backup on the history of the database.
    ///
    /// # Errors
    /// Returns the reason why an incremental backup cannot be based on it.
    pub(super) async fn base(&self, archive: &Archive, context: &Context, version: Version) -> Result<Base> {
        if version.major() < incremental::FIRST_MAJOR {
            let first = incremental::FIRST_MAJOR;
            bail!("PostgreSQL {version} has no incremental backups, and {first} is the first");
        }
        let (Role::Primary(history) | Role::Follower(history)) = &context.role else {
            bail!("the history of the database is not known");
        };
        let backups = archive.backups().await?;
        let newest = backups.newest_on(history);
        let newest = newest.context("the archive has no backup on the history of the database")?;
        let id = &newest.id;
        ensure!(
            newest.server_version.major() == version.major(),
            "the backup {id} is of PostgreSQL {}",
            newest.server_version
        );
        let chain = Chains::new(&backups.complete).of(id);
        let chain = chain.with_context(|| format!("the archive lacks a backup on which {id} is based"))?;
        ensure!(chain.len() < MAX_CHAIN, "a recovery from {id} already needs {MAX_CHAIN} backups");
        let list = archive.file_list(&archive.manifest(id).await?).await?;
        let list =
            list.with_context(|| format!("the archive has no list of the files of the backup {id}"))?;
        let base = Base { id: id.clone(), file_list: self.socket.join(FILE) };
        durable::write(&base.file_list, &list, 0o600)
            .with_context(|| format!("cannot write {}", base.file_list.display()))?;
        Ok(base)
    }
}
