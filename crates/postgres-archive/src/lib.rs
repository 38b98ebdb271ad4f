//! The archive of a PostgresCluster in an object store.
//!
//! The instance manager archives and restores WAL with it, and writes, reads, and removes base backups.
//! The crate starts no PostgreSQL process and speaks to no Kubernetes API. It works on a runtime with
//! one thread: what takes long runs on threads for blocking work.
//!
//! Only S3 is supported. All objects are written once, with a checksum, and never overwritten. Whatever
//! is read has a limit. The layout is that of [`postgres_model::archive`].
//!
//! | module | contents |
//! |---|---|
//! | [`settings`] | where the object store is, and the credentials |
//! | [`store`] | objects that are written once; retries, deadlines, and errors of the store |
//! | [`archive`] | the part of the archive that belongs to one database, and who may write there |
//! | [`wal`] | archived and restored WAL, listings, timeline histories |
//! | [`backup`] | base backups: parts, manifests, listings |
//! | [`retention`] | which backups and which WAL go, and their removal |
//! | [`recovery`] | whether a recovery can reach its target |
//! | [`error`] | errors of the archive |
//!
//! # Examples
//!
//! ```no_run
//! use postgres_archive::{Archive, Credentials, ObjectStore, ObjectStoreSettings};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let settings = ObjectStoreSettings::new("s3://backups/eu", Credentials::new("AKIA", "secret"));
//! let lineage = "db-2c1f1c4e".parse()?;
//! let archive = Archive::new(ObjectStore::new(&settings)?, lineage, "7400000000000000001".parse()?);
//! archive.claim("2c1f1c4e-0b51-4f0e-9d3c-6f1f4c1f2a3b", "db").await?;
//! let segment = "000000010000000000000001";
//! archive.archive_wal(segment.parse()?, format!("pg_wal/{segment}").as_ref()).await?;
//! # Ok(())
//! # }
//! ```

pub mod archive;
pub mod backup;
mod blocking;
mod checksum;
mod compression;
pub mod error;
pub mod recovery;
pub mod retention;
pub mod settings;
pub mod store;
#[cfg(test)]
mod tests;
mod text;
pub mod wal;
mod wal_header;

pub use self::{
    archive::{Archive, Claim},
    backup::{
        Backup, BackupData, BackupReader, BackupWriter, Backups, Chains, ClusterReference,
        MAX_FILE_LIST_BYTES, Manifest, Part, UnreadableBackup,
    },
    checksum::{Checksum, ParseChecksumError},
    error::{ArchiveError, Damage},
    recovery::{RecoveryError, RecoveryPlan, RecoveryTarget, check_recovery},
    retention::{FirstWal, Pruned, RetentionPlan, RetentionPolicy, plan_retention},
    settings::{Credentials, ObjectStoreSettings, SettingsError},
    store::{ObjectStore, Put, StoreError},
    wal::{ArchivedSegment, Restore},
    wal_header::HeaderError,
};
