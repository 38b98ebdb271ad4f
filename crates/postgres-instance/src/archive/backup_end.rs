//! The end of a base backup: where it is, and the wait for its WAL.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result, bail};
use postgres_archive::{Archive, Restore};
use postgres_model::{
    lsn::Lsn,
    report::{BackupPhase, BackupReport},
    timeline::TimelineId,
    wal_file::{SegmentSize, WalFileName, WalSegment},
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::{
    backup::{BackupTools, LAST_SEGMENT},
    context::Role,
    label::{self, Label},
};
use crate::session::Session;

/// Time between two looks at the progress of a backup.
const LOOK: Duration = Duration::from_secs(1);
/// Name of a copy of the history file of a backup, in the folder of sockets.
const HISTORY: &str = ".ensemble.backup";

/// Returns where the backup of a primary ended, by its history file.
fn read_end(history: &Path) -> Option<(Lsn, TimelineId)> {
    label::end(&std::fs::read_to_string(history).ok()?)
}

impl BackupTools {
    /// Returns up to where a recovery has to replay WAL, and the timeline there.
    ///
    /// A primary writes that into the history file of the backup. A standby has replayed at least as
    /// much: PostgreSQL takes the position up to which its data files are written.
    pub(super) async fn end(
        &self,
        archive: &Archive,
        label: &Label,
        size: SegmentSize,
    ) -> Result<(Lsn, TimelineId)> {
        let segment = WalSegment::at(label.timeline, label.begin, size);
        let offset = u32::try_from(label.begin.0 % size.bytes()).unwrap_or_default();
        let name = WalFileName::Backup { segment, offset };
        if let Some(end) = read_end(&self.archiving.wal.join(name.to_string())) {
            return Ok(end);
        }
        let Some(replayed) = Session::connect(&self.socket).await?.replayed().await? else {
            return self.archived_end(archive, name).await;
        };
        let mut contexts = self.archiving.context.subscribe();
        let follows = contexts.wait_for(|context| matches!(context.role, Role::Follower(_)));
        let context = timeout(LAST_SEGMENT, follows).await.context("the member follows no primary")??;
        match &context.role {
            Role::Follower(history) => Ok((replayed, history.until(replayed).timeline())),
            _ => bail!("the member follows no primary"),
        }
    }

    /// Returns where the backup of a primary ended, by its history file in the archive. A copy by another
    /// member that ends meanwhile removes all such files from `pg_wal` that are archived.
    async fn archived_end(&self, archive: &Archive, name: WalFileName) -> Result<(Lsn, TimelineId)> {
        let path = self.socket.join(HISTORY);
        let restored = archive.restore_wal(name, &path).await?;
        let end = read_end(&path).filter(|_| restored == Restore::Restored);
        // The next restore replaces it.
        let _ = std::fs::remove_file(&path);
        end.context("the member was a standby and is none any more; start another backup")
    }

    /// Returns when the server has waited too long for the last segment of a backup.
    ///
    /// PostgreSQL waits for it before `pg_basebackup` ends. Only a primary can begin another segment, so
    /// a standby reports for which one it waits.
    pub(super) async fn waited_too_long(&self, report: &watch::Sender<BackupReport>) {
        while self.waiting().await.is_none() {
            sleep(LOOK).await;
        }
        let wait = async {
            loop {
                if let Some(Some(segment)) = self.waiting().await {
                    report.send_if_modified(|report| {
                        let name = Some(segment.to_string());
                        let is_new = report.end_wal != name;
                        (report.phase, report.end_wal) = (BackupPhase::WaitingForWal, name);
                        is_new
                    });
                }
                sleep(LOOK).await;
            }
        };
        // Never ends by itself.
        let _: Result<(), _> = timeout(LAST_SEGMENT, wait).await;
    }

    /// Returns whether the server waits for the last segment: on a standby, with the segment up to which
    /// it has replayed WAL.
    async fn waiting(&self) -> Option<Option<WalSegment>> {
        let session = Session::connect(&self.socket).await.ok()?;
        if !session.backup_waits().await.ok()? {
            return None;
        }
        let Some(replayed) = session.replayed().await.ok()? else { return Some(None) };
        let size = self.archiving.size_of_segments();
        Some(match &self.archiving.context.borrow().role {
            Role::Follower(history) => {
                let timeline = history.until(replayed).timeline();
                Some(WalSegment::at(timeline, Lsn(replayed.0.saturating_sub(1)), size))
            }
            _ => None,
        })
    }
}
