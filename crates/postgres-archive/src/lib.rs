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

mod checksum;
pub mod settings;
pub mod store;
mod text;

pub use self::{
    checksum::{Checksum, ParseChecksumError},
    settings::{Credentials, ObjectStoreSettings, SettingsError},
    store::{ObjectStore, Put, StoreError},
};
