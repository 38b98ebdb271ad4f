//! The report of an instance: what it answers to `GET /status`.

mod archive;
mod databases;
mod recovery;
mod standby;
mod state;
mod upgrade;

use serde::{Deserialize, Serialize};

pub use self::{
    archive::{ArchiveFailure, ArchiveReport, BackupInventory, BackupPhase, BackupReport},
    databases::DatabasesReport,
    recovery::RecoveryReport,
    standby::{StandbyReport, SyncState, WalSenderState},
    state::InstanceState,
    upgrade::UpgradeReport,
};
use crate::{
    lsn::Lsn,
    system_identifier::SystemIdentifier,
    timeline::{Position, TimelineId},
};

/// Most bytes of a report.
const MAX_BYTES: usize = 64 << 10;
/// Most standbys in a report.
const MAX_STANDBYS: usize = 64;
/// Most replication slots in a report.
const MAX_SLOTS: usize = 64;
/// Most bytes of a name: those of a Pod's host name, and of an `application_name`.
const MAX_NAME: usize = 63;
/// Most bytes of a UID or of a version.
const MAX_TEXT: usize = 128;
/// Most bytes of a problem.
pub const MAX_PROBLEM: usize = 1 << 10;
/// Most bytes of `synchronous_standby_names`: 64 names with their quotation marks doubled.
const MAX_STANDBY_NAMES: usize = 10 << 10;
/// Most bytes of a history: 1,000 promotions and more.
const MAX_HISTORY: usize = 32 << 10;

/// State of an instance, as its operator reads it.
///
/// Unknown fields are ignored, and unknown states are [`InstanceState::Unknown`], so the versions of
/// the operator and of the instance can differ by one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_excessive_bools, reason = "each is an observation of its own")]
pub struct InstanceReport {
    /// Name of the member.
    pub member: String,
    /// UID of the Pod.
    #[serde(rename = "podUID")]
    pub pod_uid: String,
    /// Increases with each change. A long poll waits for a higher one.
    pub sequence: u64,
    /// State of the instance.
    pub state: InstanceState,
    /// System identifier of the data directory. `None` without a complete data directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_identifier: Option<SystemIdentifier>,
    /// Timeline of the last WAL of the member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline: Option<TimelineId>,
    /// Highest timeline that the volume names, also that of an interrupted promotion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub highest_timeline: Option<TimelineId>,
    /// Whether the volume was looked at, and never had a database.
    #[serde(default)]
    pub is_empty: bool,
    /// History file of the timeline of a primary. Empty on timeline 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<String>,
    /// Why the member waits for the operator or for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Positions in the WAL.
    #[serde(default)]
    pub positions: WalPositions,
    /// Epoch at which the member was sealed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sealed_epoch: Option<u64>,
    /// Version of the server: `server_version`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_version: Option<String>,
    /// Whether a parameter waits for a restart of the server: `pending_restart` of `pg_settings`.
    pub pending_restart: bool,
    /// [Fingerprint](crate::parameters::fingerprint) of the parameters of the spec that were read last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<u64>,
    /// Why PostgreSQL refuses these parameters. It runs with the former ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_parameters: Option<String>,
    /// What came of the roles and databases of the spec, if this member is the primary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub databases: Option<DatabasesReport>,
    /// The parameter of this name on a primary, if it is [in force](crate::in_force).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synchronous_standby_names: Option<String>,
    /// Replication slots of [members](crate::slots) that the server has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<String>,
    /// Standbys that stream from this member.
    #[serde(default)]
    pub standbys: Vec<StandbyReport>,
    /// Whether the member stops writing when its Lease expires. A single member does not, until a
    /// second one is about to become a candidate.
    pub fencing: bool,
    /// Version of the program that reports.
    pub manager_version: String,
    /// Where the server stopped cleanly last, if it did and has not run since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_clean_stop: Option<Position>,
    /// Free bytes of the volume.
    pub free_bytes: u64,
    /// Bytes of the volume. Zero if they are not known.
    #[serde(default)]
    pub total_bytes: u64,
    /// Whether the volume is full: the member neither becomes the primary nor follows one until there
    /// is more space.
    #[serde(default)]
    pub disk_full: bool,
    /// State of the archive, if this member is the primary and archives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<ArchiveReport>,
    /// The recovery that this member performs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryReport>,
    /// The upgrade of the data to another major version, which this member was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<UpgradeReport>,
    /// The last base backup that this run of the instance was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<BackupReport>,
}

/// Positions in the WAL of a member. Those that do not apply are absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalPositions {
    /// End of the WAL that is on disk: `pg_current_wal_flush_lsn` on a primary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flushed: Option<Lsn>,
    /// End of the WAL that was received and is on disk: `pg_last_wal_receive_lsn`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received: Option<Lsn>,
    /// End of the WAL that was replayed: `pg_last_wal_replay_lsn`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayed: Option<Lsn>,
}

/// Error of a report that cannot be sent or read.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The report has too many bytes.
    #[error("the report of an instance has {0} bytes, and at most {MAX_BYTES} are read")]
    Bytes(usize),
    /// The report has too many standbys.
    #[error("the report of an instance lists {0} standbys, and at most {MAX_STANDBYS} are read")]
    Standbys(usize),
    /// The report has too many replication slots.
    #[error("the report of an instance lists {0} replication slots, and at most {MAX_SLOTS} are read")]
    Slots(usize),
    /// A text in the report is too long.
    #[error("{field} in the report of an instance has {bytes} bytes, and at most {most} are read")]
    Text {
        /// Name of the field.
        field: &'static str,
        /// Length of the text.
        bytes: usize,
        /// Longest text that is read.
        most: usize,
    },
    /// The report is not JSON of this form.
    #[error(
        "cannot read the report of an instance: {0}; the versions of the operator and of the instance may \
         differ by more than one"
    )]
    Json(#[from] serde_json::Error),
}

impl InstanceReport {
    /// Returns the report of an instance that has not looked at its data yet.
    pub fn starting(member: String, pod_uid: String, manager_version: &str) -> Self {
        Self {
            member,
            pod_uid,
            sequence: 0,
            state: InstanceState::Hold,
            system_identifier: None,
            timeline: None,
            highest_timeline: None,
            is_empty: false,
            history: None,
            problem: None,
            positions: WalPositions::default(),
            sealed_epoch: None,
            server_version: None,
            pending_restart: false,
            parameters: None,
            refused_parameters: None,
            databases: None,
            synchronous_standby_names: None,
            slots: Vec::new(),
            standbys: Vec::new(),
            fencing: true,
            manager_version: manager_version.to_owned(),
            last_clean_stop: None,
            free_bytes: 0,
            total_bytes: 0,
            disk_full: false,
            archive: None,
            recovery: None,
            upgrade: None,
            backup: None,
        }
    }

    /// Reads a report.
    ///
    /// # Errors
    /// Returns an error if it has another form, or is larger than any report should be.
    pub fn decode(json: &[u8]) -> Result<Self, ReportError> {
        check_size(json)?;
        let report: Self = serde_json::from_slice(json)?;
        report.check()?;
        Ok(report)
    }

    /// Renders a report that [`Self::decode`] reads.
    ///
    /// # Errors
    /// Returns an error if the report is too large.
    pub fn encode(&self) -> Result<Vec<u8>, ReportError> {
        self.check()?;
        let json = serde_json::to_vec(self)?;
        check_size(&json)?;
        Ok(json)
    }

    fn check(&self) -> Result<(), ReportError> {
        if self.standbys.len() > MAX_STANDBYS {
            return Err(ReportError::Standbys(self.standbys.len()));
        }
        if self.slots.len() > MAX_SLOTS {
            return Err(ReportError::Slots(self.slots.len()));
        }
        let texts = [
            ("member", Some(&self.member), MAX_NAME),
            ("podUID", Some(&self.pod_uid), MAX_TEXT),
            ("serverVersion", self.server_version.as_ref(), MAX_TEXT),
            ("managerVersion", Some(&self.manager_version), MAX_TEXT),
            ("history", self.history.as_ref(), MAX_HISTORY),
            ("problem", self.problem.as_ref(), MAX_PROBLEM),
            ("refusedParameters", self.refused_parameters.as_ref(), MAX_PROBLEM),
            ("synchronousStandbyNames", self.synchronous_standby_names.as_ref(), MAX_STANDBY_NAMES),
        ];
        let names = self.standbys.iter().map(|standby| ("standbys.name", Some(&standby.name), MAX_NAME));
        let slots = self.slots.iter().map(|slot| ("slots", Some(slot), MAX_NAME));
        texts
            .into_iter()
            .chain(names)
            .chain(slots)
            .try_for_each(|(field, text, most)| check_text(field, text, most))?;
        self.archive.as_ref().map_or(Ok(()), ArchiveReport::check)?;
        self.recovery.as_ref().map_or(Ok(()), RecoveryReport::check)?;
        self.upgrade.as_ref().map_or(Ok(()), UpgradeReport::check)?;
        self.databases.as_ref().map_or(Ok(()), DatabasesReport::check)?;
        self.backup.as_ref().map_or(Ok(()), BackupReport::check)
    }
}

/// Returns the part of a problem that a report has space for.
pub fn shortened(mut problem: String) -> String {
    problem.truncate(problem.floor_char_boundary(MAX_PROBLEM));
    problem
}

fn check_size(json: &[u8]) -> Result<(), ReportError> {
    if json.len() > MAX_BYTES { Err(ReportError::Bytes(json.len())) } else { Ok(()) }
}

fn check_text(field: &'static str, text: Option<&String>, most: usize) -> Result<(), ReportError> {
    match text.map(String::len) {
        Some(bytes) if bytes > most => Err(ReportError::Text { field, bytes, most }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
