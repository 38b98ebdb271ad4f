//! A base backup of this member, into the object store.

use std::{io::Cursor, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;
use postgres_archive::{Archive, ArchiveError, Backup, BackupWriter, ClusterReference, Manifest, StoreError};
use postgres_model::{
    archive::BackupId,
    incremental,
    lsn::Lsn,
    report::{BackupPhase, BackupReport},
    version::Version,
    wal_file::{WalFileName, WalSegment},
};
use tokio::{
    io::AsyncReadExt,
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;
use tracing::{error, info, warn};

use super::{
    Archiving,
    base::Base,
    context::{Context, Role},
    failure::failure,
    file_list::FileListReader,
    label::{self, Label},
};
use crate::{
    configuration::SUPERUSER,
    programs::{Programs, Streaming},
    session::Session,
    status_api::BackupRequest,
};

/// How long the last segment of a backup may take to be archived.
pub(super) const LAST_SEGMENT: Duration = Duration::from_mins(10);
/// Time between two looks for it.
const LOOK: Duration = Duration::from_secs(1);

/// The last backup that this run of the instance was asked for.
pub(crate) struct RunningBackup {
    report: watch::Receiver<BackupReport>,
    /// Whether the member was a standby when it began.
    was_standby: bool,
    /// Why it was given up.
    given_up: Option<String>,
    task: AbortOnDropHandle<()>,
}

/// What a backup needs.
pub(crate) struct BackupTools {
    pub(crate) archiving: Arc<Archiving>,
    pub(crate) programs: Programs,
    /// Folder of the socket of PostgreSQL.
    pub(crate) socket: PathBuf,
    /// Name of the member.
    pub(crate) member: String,
}

/// A `pg_basebackup` whose output has been read up to the end of the label.
struct BaseBackupStream {
    output: Streaming,
    label: Label,
    /// What was read.
    first: Vec<u8>,
    /// The backup that it is based on.
    based_on: Option<BackupId>,
}

impl RunningBackup {
    /// Starts a backup.
    pub(crate) fn start(tools: BackupTools, request: BackupRequest) -> Self {
        let first = BackupReport {
            uid: request.uid.clone(),
            started_at: Some(Timestamp::now().to_string()),
            ..BackupReport::default()
        };
        let was_standby = !matches!(tools.archiving.context.borrow().role, Role::Primary(_));
        let (sender, report) = watch::channel(first);
        let task = AbortOnDropHandle::new(tokio::spawn(run(tools, request, sender)));
        Self { report, was_standby, given_up: None, task }
    }

    /// Returns whether it was asked for by this PostgresBackup.
    pub(crate) fn is_of(&self, uid: &str) -> bool {
        self.report.borrow().uid == uid
    }

    /// Returns whether it still runs.
    pub(crate) fn runs(&self) -> bool {
        self.given_up.is_none() && !self.task.is_finished()
    }

    /// Gives up the backup of a standby that becomes the primary.
    pub(crate) fn note_primary(&mut self) {
        if self.was_standby && self.runs() {
            self.task.abort();
            self.given_up =
                Some("the member was chosen as the next primary; start another backup".to_owned());
        }
    }

    /// Returns how far it has come.
    pub(crate) fn report(&self) -> BackupReport {
        let report = self.report.borrow().clone();
        match &self.given_up {
            Some(reason) => {
                BackupReport { phase: BackupPhase::Failed, error: Some(reason.clone()), ..report }
            }
            None => report,
        }
    }

    /// Waits for another report. Returns false when there are no more.
    pub(crate) async fn changed(&mut self) -> bool {
        self.report.changed().await.is_ok()
    }
}

async fn run(tools: BackupTools, request: BackupRequest, report: watch::Sender<BackupReport>) {
    let result = tools.make(&request, &report).await;
    report.send_modify(|report| match result {
        Ok(()) => {
            info!(id = report.id, uid = report.uid, "the backup is complete");
            report.phase = BackupPhase::Completed;
        }
        Err(error) => {
            let message = format!("{error:#}");
            error!(id = report.id, uid = report.uid, error = message, "the backup failed");
            report.phase = BackupPhase::Failed;
            report.error = Some(failure(message).message);
        }
    });
}

impl BackupTools {
    async fn make(&self, request: &BackupRequest, report: &watch::Sender<BackupReport>) -> Result<()> {
        let context = self.archiving.context.borrow().clone();
        let archive = self.archiving.connection.backup_writer(&context).await;
        let archive = archive.map_err(|failure| anyhow::anyhow!(failure.message))?;
        let manifest = self.copy(request, &archive, &context, report).await?;
        report.send_modify(|report| describe(report, &manifest.backup));
        self.complete(&archive, &manifest).await
    }

    /// Copies the data into the store.
    async fn copy(
        &self,
        request: &BackupRequest,
        archive: &Archive,
        context: &Context,
        report: &watch::Sender<BackupReport>,
    ) -> Result<Manifest> {
        let started_at = Timestamp::now();
        info!(uid = request.uid, "the backup begins");
        let server_version = self.server_version().await?;
        let BaseBackupStream { mut output, label, first, based_on } =
            self.start_as_requested(request, archive, context, server_version, report).await?;
        let id = BackupId::new(&started_at.strftime("%Y%m%dT%H%M%SZ").to_string(), label.timeline)?;
        report.send_modify(|report| {
            report.id = Some(id.to_string());
            report.based_on = based_on.as_ref().map(ToString::to_string);
        });
        let mut tar = FileListReader::new(Cursor::new(first).chain(&mut output.stdout));
        let write = BackupWriter::new(archive.clone(), id.clone()).write(&mut tar);
        let data = tokio::select! {
            data = write => data?,
            () = self.waited_too_long(report) => bail!(not_archived("the last WAL segment")),
        };
        let list = tar.into_list();
        output.ended().await?;
        let file_list = match list {
            Some(list) => Some(archive.write_file_list(&id, list).await?),
            None => None,
        };
        let size = self.archiving.size_of_segments();
        let (end, timeline) = self.end(archive, &label, size).await?;
        let backup = Backup {
            id,
            based_on,
            system: archive.system(),
            server_version,
            timeline: label.timeline,
            begin_lsn: label.begin,
            end_lsn: end,
            begin_wal: WalSegment::at(label.timeline, label.begin, size),
            end_wal: WalSegment::at(timeline, Lsn(end.0.saturating_sub(1)), size),
            segment_size: size,
            started_at,
            stopped_at: Timestamp::now(),
            raw_bytes: 0,
            stored_bytes: 0,
            member: self.member.clone(),
            cluster: ClusterReference { name: context.cluster.clone(), uid: context.cluster_uid.clone() },
        };
        Ok(Manifest { file_list, ..Manifest::new(backup, data) })
    }

    /// Starts an incremental backup if one was asked for and is possible, otherwise a full one.
    async fn start_as_requested(
        &self,
        request: &BackupRequest,
        archive: &Archive,
        context: &Context,
        version: Version,
        report: &watch::Sender<BackupReport>,
    ) -> Result<BaseBackupStream> {
        if !request.incremental {
            return self.start(request, None, version).await;
        }
        let reason = match self.base(archive, context, version).await {
            Ok(base) => match self.start(request, Some(&base), version).await {
                Ok(stream) => return Ok(stream),
                // For example because the server lacks a summary of the WAL since then.
                Err(error) => format!("it cannot be based on {}: {error:#}", base.id),
            },
            Err(reason) => format!("{reason:#}"),
        };
        warn!(uid = request.uid, reason, "making a full backup instead of an incremental one");
        report.send_modify(|report| report.full_reason = Some(failure(reason).message));
        self.start(request, None, version).await
    }

    /// Starts `pg_basebackup`, and waits for the label.
    async fn start(
        &self,
        request: &BackupRequest,
        base: Option<&Base>,
        version: Version,
    ) -> Result<BaseBackupStream> {
        let mut output = self.programs.stream("pg_basebackup", &self.arguments(request, base, version))?;
        match label::read(&mut output.stdout).await {
            Ok((label, first)) => {
                Ok(BaseBackupStream { output, label, first, based_on: base.map(|base| base.id.clone()) })
            }
            // The program tells why it ended.
            Err(error) => Err(output.ended().await.map_or_else(Into::into, |()| error.into())),
        }
    }

    fn arguments(&self, request: &BackupRequest, base: Option<&Base>, version: Version) -> Vec<String> {
        let checkpoint = if request.immediate_checkpoint { "fast" } else { "spread" };
        let fixed = ["-D", "-", "--format=tar", "--wal-method=none", "--no-password"];
        let fixed = fixed.into_iter().map(str::to_owned);
        let others = [
            format!("--checkpoint={checkpoint}"),
            format!("--label={}", request.uid),
            format!("--host={}", self.socket.display()),
            format!("--username={SUPERUSER}"),
        ];
        // Only incremental backups need the list of the files.
        let no_list = (version.major() < incremental::FIRST_MAJOR).then(|| "--no-manifest".to_owned());
        let base = base.map(|base| format!("--incremental={}", base.file_list.display()));
        fixed.chain(others).chain(no_list).chain(base).collect()
    }

    async fn server_version(&self) -> Result<Version> {
        let version = Session::connect(&self.socket).await?.ask().await?.version;
        let number = version.split(' ').next().unwrap_or_default();
        number.parse().with_context(|| format!("cannot use the version {version} of PostgreSQL"))
    }

    /// Writes the manifest when all WAL that the backup needs is in the store.
    async fn complete(&self, archive: &Archive, manifest: &Manifest) -> Result<()> {
        let last = WalFileName::Segment(manifest.backup.end_wal);
        let work = async {
            loop {
                let error = match archive.has_wal(last).await {
                    Ok(true) => match archive.complete_backup(manifest).await {
                        Ok(_) => return Ok(()),
                        Err(error) => error,
                    },
                    Ok(false) => {
                        let (backup, segment) = (manifest.backup.id.clone(), manifest.backup.end_wal);
                        ArchiveError::MissingWal { backup, segment }
                    }
                    Err(error) => error,
                };
                if !is_temporary(&error) {
                    return Err(error);
                }
                sleep(LOOK).await;
            }
        };
        match timeout(LAST_SEGMENT, work).await {
            Ok(result) => Ok(result?),
            Err(_elapsed) => bail!(not_archived(&format!("the WAL segment {last}"))),
        }
    }
}

fn not_archived(what: &str) -> String {
    format!(
        "{what} was not archived within {} minutes; read the condition Archiving of the PostgresCluster, and \
         start another backup",
        LAST_SEGMENT.as_secs() / 60
    )
}

fn is_temporary(error: &ArchiveError) -> bool {
    matches!(error, ArchiveError::MissingWal { .. } | ArchiveError::Store(StoreError::Unavailable { .. }))
}

/// Reports a backup whose data are in the store.
fn describe(report: &mut BackupReport, backup: &Backup) {
    report.phase = BackupPhase::WaitingForWal;
    report.timeline = Some(backup.timeline);
    (report.begin_lsn, report.end_lsn) = (Some(backup.begin_lsn), Some(backup.end_lsn));
    (report.begin_wal, report.end_wal) =
        (Some(backup.begin_wal.to_string()), Some(backup.end_wal.to_string()));
    report.started_at = Some(backup.started_at.to_string());
    report.stopped_at = Some(backup.stopped_at.to_string());
    report.bytes = Some(backup.stored_bytes);
}
