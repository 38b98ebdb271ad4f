//! Restores a base backup into a partial data directory.

use std::{
    fs::{DirBuilder, File},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, bail, ensure};
use postgres_archive::{Archive, Restore};
use postgres_model::{timeline::TimelineId, wal_file::WalFileName};
use tracing::info;

use super::{Progress, plan::plan, unpack::unpack};
use crate::{
    archive::{RecoverySettings, Source},
    control_data,
    programs::Programs,
};

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
    info!(id = %planned.backup.id, segment = %planned.chosen.last, "restoring a backup");
    let manifest = archive.manifest(&planned.chosen.backup).await?;
    let created = DirBuilder::new().mode(0o700).create(&folder);
    created.with_context(|| format!("cannot create {}", folder.display()))?;
    unpack(archive.read_backup(manifest)?, &folder).await?;
    // A backup without WAL has no histories, and the instance reads them before PostgreSQL does.
    for timeline in [planned.backup.timeline, planned.recovery.timeline] {
        restore_history(&archive, timeline, &folder).await?;
    }
    let root = File::open(&folder).with_context(|| format!("cannot open {}", folder.display()))?;
    rustix::fs::syncfs(&root).with_context(|| format!("cannot make {} durable", folder.display()))
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
