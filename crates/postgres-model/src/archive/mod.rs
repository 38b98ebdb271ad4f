//! Layout of the archive: which object of the store has which key.
//!
//! ```text
//! <lineage>/<system identifier>/cluster.json                          marker
//! <lineage>/<system identifier>/wal/<timeline>/<file>.zst             WAL
//! <lineage>/<system identifier>/history/<timeline>.history            timeline histories
//! <lineage>/<system identifier>/base/<backup>/data.tar.zst.<part>     base backups
//! <lineage>/<system identifier>/base/<backup>/backup_manifest.zst     list of the files of a base backup
//! <lineage>/<system identifier>/base/<backup>/manifest.json
//! ```
//!
//! Each key is written once. Clusters of the same name have different lineages, and the timelines of
//! one system identifier have unique numbers, so no two writers have the same key.

mod backup_id;
mod lineage;

use std::{fmt, str::FromStr};

pub use self::{
    backup_id::{BackupId, ParseBackupIdError},
    lineage::{Lineage, LineageError},
};
use crate::{system_identifier::SystemIdentifier, wal_file::WalFileName};

/// Extension of compressed objects.
const COMPRESSED: &str = ".zst";
/// Name of the data of a base backup, before the number of the part.
const DATA: &str = "data.tar.zst.";
/// Name of the list of the files of a base backup.
const FILE_LIST: &str = "backup_manifest.zst";

/// Key of an object in the store, below the URL of the archive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArchiveKey {
    /// Cluster that wrote the object.
    pub lineage: Lineage,
    /// System identifier of the data.
    pub system: SystemIdentifier,
    /// What the object contains.
    pub object: ArchiveObject,
}

/// Content of an object in the archive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ArchiveObject {
    /// Names the cluster that the lineage belongs to. Created before any other object.
    Marker,
    /// File that `archive_command` archives. Histories are not compressed.
    Wal(WalFileName),
    /// Part of the data of a base backup, from 0.
    BackupData {
        /// The backup.
        backup: BackupId,
        /// Number of the part.
        part: u32,
    },
    /// List of the files of a base backup, as PostgreSQL writes it. An incremental backup needs the list of
    /// the one that it is based on.
    BackupFileList(BackupId),
    /// Manifest of a base backup. Created last: without it, the backup is incomplete.
    BackupManifest(BackupId),
}

/// Error of a key that no object of the archive has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not the key of an object that a PostgresCluster archives; remove objects of other programs"
)]
pub struct ParseArchiveKeyError(String);

impl fmt::Display for ArchiveKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.lineage, self.system, self.object)
    }
}

/// Prints the key below the lineage and the system identifier.
impl fmt::Display for ArchiveObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Marker => f.write_str("cluster.json"),
            Self::Wal(file) => write_wal(file, f),
            Self::BackupData { backup, part } => write!(f, "base/{backup}/{DATA}{part:05}"),
            Self::BackupFileList(backup) => write!(f, "base/{backup}/{FILE_LIST}"),
            Self::BackupManifest(backup) => write!(f, "base/{backup}/manifest.json"),
        }
    }
}

fn write_wal(file: &WalFileName, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match file {
        WalFileName::History(_) => write!(f, "history/{file}"),
        WalFileName::Segment(segment)
        | WalFileName::Partial(segment)
        | WalFileName::Backup { segment, .. } => {
            write!(f, "wal/{:08X}/{file}{COMPRESSED}", segment.timeline().get())
        }
    }
}

impl FromStr for ArchiveKey {
    type Err = ParseArchiveKeyError;

    fn from_str(key: &str) -> Result<Self, ParseArchiveKeyError> {
        split(key).ok_or_else(|| ParseArchiveKeyError(key.to_owned()))
    }
}

fn split(key: &str) -> Option<ArchiveKey> {
    let (lineage, rest) = key.split_once('/')?;
    let (system, object) = rest.split_once('/')?;
    let (lineage, system) = (lineage.parse().ok()?, system.parse().ok()?);
    Some(ArchiveKey { lineage, system, object: parse_object(object)? })
}

fn parse_object(key: &str) -> Option<ArchiveObject> {
    match key.split_once('/') {
        None => (key == "cluster.json").then_some(ArchiveObject::Marker),
        Some(("wal", rest)) => parse_wal(rest),
        Some(("history", file)) => parse_history(file),
        Some(("base", rest)) => parse_backup(rest),
        Some(_) => None,
    }
}

/// Parses the key of a WAL file. Its directory must be that of its timeline.
fn parse_wal(key: &str) -> Option<ArchiveObject> {
    let (_, file) = key.split_once('/')?;
    let object = ArchiveObject::Wal(file.strip_suffix(COMPRESSED)?.parse().ok()?);
    (object.to_string() == format!("wal/{key}")).then_some(object)
}

fn parse_history(file: &str) -> Option<ArchiveObject> {
    let file = file.parse().ok()?;
    matches!(file, WalFileName::History(_)).then_some(ArchiveObject::Wal(file))
}

fn parse_backup(key: &str) -> Option<ArchiveObject> {
    let (backup, file) = key.split_once('/')?;
    let backup = backup.parse().ok()?;
    match file {
        "manifest.json" => Some(ArchiveObject::BackupManifest(backup)),
        FILE_LIST => Some(ArchiveObject::BackupFileList(backup)),
        _ => Some(ArchiveObject::BackupData { backup, part: parse_part(file.strip_prefix(DATA)?)? }),
    }
}

/// Parses the number of a part: at least five digits, so that a list of keys has the right order.
fn parse_part(digits: &str) -> Option<u32> {
    let part = digits.parse::<u32>().ok()?;
    (format!("{part:05}") == digits).then_some(part)
}

#[cfg(test)]
mod tests;
