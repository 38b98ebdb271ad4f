//! Recovery of the database from the archive of another cluster.
//!
//! ```text
//!   plan       which backup is restored, and up to which WAL: fails before anything is downloaded
//!   restore    downloads the backup into a partial data directory
//!   progress   what the member reports about it
//! ```
//!
//! PostgreSQL replays the WAL afterwards, as a standby without an upstream, and pauses at the target.

mod plan;
mod progress;
mod restore;
mod unpack;

pub(crate) use self::{progress::Progress, restore::restore};
