//! What an instance reports about the archive, and about a base backup.

use serde::{Deserialize, Serialize};

use super::{MAX_PROBLEM, MAX_TEXT, ReportError, check_text};
use crate::{lsn::Lsn, timeline::TimelineId};

/// State of the archive, as a primary reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArchiveReport {
    /// Whether the object store is known to accept what this primary writes.
    #[serde(default)]
    pub is_claimed: bool,
    /// Name of the last segment that was archived, as far as it is told: at most once a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_archived: Option<String>,
    /// Why nothing is archived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<ArchiveFailure>,
    /// The backups in the archive, once they have been listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backups: Option<BackupInventory>,
}

/// Why nothing is archived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArchiveFailure {
    /// Whether somebody else has written to the place of this cluster. Nothing was overwritten.
    pub is_conflict: bool,
    /// What failed, and what to do.
    pub message: String,
}

/// Complete backups in the archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupInventory {
    /// Their number.
    pub count: u32,
    /// Identifier of the oldest one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest: Option<String>,
    /// First moment that a recovery can reach: the end of the oldest one, as in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_recoverable: Option<String>,
}

/// State of the last base backup that an instance was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupReport {
    /// UID of the PostgresBackup.
    pub uid: String,
    /// How far it has come.
    pub phase: BackupPhase,
    /// Identifier in the archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Timeline on which it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline: Option<TimelineId>,
    /// Where it began.
    #[serde(rename = "beginLSN", skip_serializing_if = "Option::is_none")]
    pub begin_lsn: Option<Lsn>,
    /// Where it ended.
    #[serde(rename = "endLSN", skip_serializing_if = "Option::is_none")]
    pub end_lsn: Option<Lsn>,
    /// First segment that a recovery needs.
    #[serde(rename = "beginWAL", skip_serializing_if = "Option::is_none")]
    pub begin_wal: Option<String>,
    /// Last segment that a recovery needs at least.
    #[serde(rename = "endWAL", skip_serializing_if = "Option::is_none")]
    pub end_wal: Option<String>,
    /// When it began, as in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When it ended, as in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_at: Option<String>,
    /// Bytes in the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Identifier of the backup that it is based on. `None`: it is a full one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub based_on: Option<String>,
    /// Why it is a full one, although an incremental one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_reason: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How far a base backup has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BackupPhase {
    /// The data are copied.
    #[default]
    Copying,
    /// The data are in the store, and the last segment that they need is not.
    WaitingForWal,
    /// Everything that a recovery needs is in the store.
    Completed,
    /// It was given up.
    Failed,
    /// A state that this version does not know.
    #[serde(other)]
    Unknown,
}

impl ArchiveReport {
    pub(super) fn check(&self) -> Result<(), ReportError> {
        let inventory = self.backups.as_ref();
        let failure = self.failure.as_ref().map(|failure| &failure.message);
        check_text("archive.failure.message", failure, MAX_PROBLEM)?;
        check_text("archive.lastArchived", self.last_archived.as_ref(), MAX_TEXT)?;
        let oldest = inventory.and_then(|inventory| inventory.oldest.as_ref());
        check_text("archive.backups.oldest", oldest, MAX_TEXT)?;
        let first = inventory.and_then(|inventory| inventory.first_recoverable.as_ref());
        check_text("archive.backups.firstRecoverable", first, MAX_TEXT)
    }
}

impl BackupReport {
    pub(super) fn check(&self) -> Result<(), ReportError> {
        check_text("backup.uid", Some(&self.uid), MAX_TEXT)?;
        check_text("backup.error", self.error.as_ref(), MAX_PROBLEM)?;
        check_text("backup.fullReason", self.full_reason.as_ref(), MAX_PROBLEM)?;
        let texts =
            [&self.id, &self.based_on, &self.begin_wal, &self.end_wal, &self.started_at, &self.stopped_at];
        texts.into_iter().try_for_each(|text| check_text("backup", text.as_ref(), MAX_TEXT))
    }
}
