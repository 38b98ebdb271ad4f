//! Errors of the archive.

use std::{fmt, io, path::PathBuf};

use postgres_model::{archive::BackupId, wal_file::WalSegment};

use crate::{store::StoreError, wal_header::HeaderError};

/// Error of an operation on the archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The object store failed or refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another cluster claimed this part of the archive.
    #[error(
        "cannot archive to {key}: it belongs to the PostgresCluster {name} with the UID {uid}; choose another \
         serverName, or another prefix in the URL"
    )]
    Owned {
        /// Key of the marker.
        key: String,
        /// Name of the cluster that owns it.
        name: String,
        /// UID of the cluster that owns it.
        uid: String,
    },
    /// The object is not what was written, or was not written by an archive.
    #[error("cannot use {key}: {damage}; restore the object from a copy, or use another backup")]
    Damaged {
        /// Key of the object.
        key: String,
        /// What is wrong.
        damage: Damage,
    },
    /// A manifest or a marker has a version that a later release wrote.
    #[error(
        "cannot read {key}: it has version {version}, and this release knows version {supported}; use a newer release"
    )]
    Version {
        /// Key of the object.
        key: String,
        /// Version of the object.
        version: u64,
        /// Newest version that is known.
        supported: u64,
    },
    /// The file is not what its name says.
    #[error(
        "cannot archive {path}: {error}; look for another cluster that uses the volume, or a damaged disk"
    )]
    WalFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: HeaderError,
    },
    /// A local file cannot be read or written.
    #[error("cannot {attempt} {path}: {source}; check the volume")]
    File {
        /// `read` or `write`.
        attempt: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The stream of a base backup cannot be read.
    #[error("cannot read the data of the backup {backup}: {source}; start the backup again")]
    Stream {
        /// The backup.
        backup: BackupId,
        /// Why.
        source: io::Error,
    },
    /// A base backup has more parts than a manifest can list.
    #[error("cannot write the backup {backup}: it has more than {limit} parts; use larger parts")]
    TooManyParts {
        /// The backup.
        backup: BackupId,
        /// Most parts.
        limit: usize,
    },
    /// The backup does not exist, or is not complete.
    #[error("cannot read the backup {0}: the archive has no manifest of it; choose a complete backup")]
    NoBackup(BackupId),
    /// A manifest contradicts itself or the archive.
    #[error("cannot complete the backup {backup}: {reason}; start the backup again")]
    Manifest {
        /// The backup.
        backup: BackupId,
        /// What is wrong.
        reason: String,
    },
    /// A part of a backup is not in the archive, so the backup cannot be completed.
    #[error("cannot complete the backup {backup}: part {part} is not in the archive; start the backup again")]
    MissingPart {
        /// The backup.
        backup: BackupId,
        /// Number of the part.
        part: u32,
    },
    /// WAL that a backup needs is not in the archive yet.
    #[error(
        "cannot complete the backup {backup}: the WAL segment {segment} is not in the archive; try again when \
         the primary has archived it"
    )]
    MissingWal {
        /// The backup.
        backup: BackupId,
        /// First segment that is missing.
        segment: WalSegment,
    },
    /// The runtime is shutting down, or a task panicked.
    #[error("cannot finish the work on {0}: its task was stopped; try again")]
    Stopped(String),
}

/// What is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The object does not exist, although the manifest of the backup names it.
    Missing,
    /// The object has no checksum, so another program wrote it.
    NoChecksum,
    /// The content does not have the checksum.
    Checksum,
    /// The content is longer than it can be. Nothing after this number of bytes was read.
    TooLong(u64),
    /// The content ends too early.
    Truncated,
    /// The content cannot be decompressed or parsed.
    Content(String),
    /// The content is not the WAL that the key says.
    Wal(HeaderError),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("it does not exist"),
            Self::NoChecksum => f.write_str("it has no checksum, so another program wrote it"),
            Self::Checksum => f.write_str("its content does not have its checksum"),
            Self::TooLong(limit) => write!(f, "its content has more than {limit} bytes"),
            Self::Truncated => f.write_str("its content ends too early"),
            Self::Content(cause) => write!(f, "its content is damaged ({cause})"),
            Self::Wal(error) => error.fmt(f),
        }
    }
}

impl ArchiveError {
    pub(crate) fn damaged(key: impl Into<String>, damage: Damage) -> Self {
        Self::Damaged { key: key.into(), damage }
    }

    pub(crate) fn file(attempt: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::File { attempt, path: path.into(), source }
    }
}
