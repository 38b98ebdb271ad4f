//! Restores a base backup into a partial data directory.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, bail, ensure};
use postgres_archive::{Archive, Restore};
use postgres_model::{archive::BackupId, timeline::TimelineId, wal_file::WalFileName};
use tokio::task::spawn_blocking;
use tracing::info;

use super::{Progress, plan::plan, unpack::unpack};
use crate::{
    archive::{RecoverySettings, Source},
    control_data, durable,
    programs::Programs,
};

/// List of the files of a backup, which a data directory does not have.
const FILE_LIST: &str = "backup_manifest";
/// First major version whose `pg_combinebackup` can link files instead of copying them.
const FIRST_WITH_LINKS: u16 = 18;

/// Restores the backup of a recovery into a new folder. Notes which one, and for which recovery.
///
/// # Errors
/// Returns an error if the archive cannot be read, or what the recovery needs is not there.
pub(crate) async fn restore(
    source: Source,
    settings: Arc<RecoverySettings>,
    programs: Programs,
    folder: PathBuf,
    progress: Arc<Progress>,
) -> Result<()> {
    let archive = source.archive(&settings).await?;
    let planned = plan(&archive, &settings).await?;
    let major = programs.major_version().await?;
    let version = &planned.backup.server_version;
    ensure!(
        version.to_string().split('.').next().and_then(|number| number.parse().ok()) == Some(major),
        "the backup {} is of PostgreSQL {version}, and the image has PostgreSQL {major}; set spec.version to that \
         major version",
        planned.backup.id
    );
    progress.planned(&planned.chosen, planned.recovery);
    let chain = &planned.chain;
    info!(id = %planned.backup.id, count = chain.len(), segment = %planned.chosen.last, "restoring a backup");
    create(&folder)?;
    match &chain[..] {
        [full] => {
            download(&archive, full, &folder).await?;
            let list = folder.join(FILE_LIST);
            durable::remove(&list).with_context(|| format!("cannot remove {}", list.display()))?;
        }
        chain => combine(&archive, chain, &programs, major, &folder).await?,
    }
    // A backup without WAL has no histories, and the instance reads them before PostgreSQL does.
    for timeline in [planned.backup.timeline, planned.recovery.timeline] {
        restore_history(&archive, timeline, &folder).await?;
    }
    let root = File::open(&folder).with_context(|| format!("cannot open {}", folder.display()))?;
    rustix::fs::syncfs(&root).with_context(|| format!("cannot make {} durable", folder.display()))
}

fn create(folder: &Path) -> Result<()> {
    let created = DirBuilder::new().mode(0o700).create(folder);
    created.with_context(|| format!("cannot create {}", folder.display()))
}

/// Downloads the data of a backup into a folder.
async fn download(archive: &Archive, backup: &BackupId, folder: &Path) -> Result<()> {
    let manifest = archive.manifest(backup).await?;
    unpack(archive.read_backup(manifest)?, folder).await
}

/// Downloads the backups of a chain, and combines them in an empty folder.
///
/// Needs as much space as all of them, and as the result: from version 18 on, the result takes over files.
async fn combine(
    archive: &Archive,
    chain: &[BackupId],
    programs: &Programs,
    major: u16,
    folder: &Path,
) -> Result<()> {
    let (backups, result) = (folder.join("backups"), folder.join("result"));
    create(&backups)?;
    let mut arguments: Vec<OsString> = ["--no-sync", "--no-manifest"].map(Into::into).into();
    if major >= FIRST_WITH_LINKS {
        arguments.push("--link".into());
    }
    arguments.extend(["--output".into(), result.clone().into()]);
    for backup in chain {
        let data = backups.join(backup.to_string());
        create(&data)?;
        download(archive, backup, &data).await?;
        arguments.push(data.into());
    }
    let arguments: Vec<_> = arguments.iter().map(AsRef::as_ref).collect();
    programs.output("pg_combinebackup", &arguments).await?;
    let target = folder.to_owned();
    let moved = spawn_blocking(move || replace(&backups, &result, &target)).await;
    let moved = moved.context("the task was cancelled")?;
    moved.with_context(|| format!("cannot move the combined backups to {}", folder.display()))
}

/// Deletes the backups, and moves the result into the folder.
fn replace(backups: &Path, result: &Path, folder: &Path) -> io::Result<()> {
    fs::remove_dir_all(backups)?;
    for entry in fs::read_dir(result)? {
        let entry = entry?;
        fs::rename(entry.path(), folder.join(entry.file_name()))?;
    }
    fs::remove_dir(result)
}

async fn restore_history(archive: &Archive, timeline: TimelineId, data: &Path) -> Result<()> {
    if timeline == TimelineId::FIRST {
        return Ok(());
    }
    let path = control_data::path(data, timeline);
    match archive.restore_wal(WalFileName::History(timeline), &path).await? {
        Restore::Restored => Ok(()),
        Restore::NotFound => bail!("the archive has no history of the timeline {timeline}"),
    }
}
