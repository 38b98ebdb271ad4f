//! Incremental base backups.

/// First major version of PostgreSQL that makes and restores them.
pub const FIRST_MAJOR: u16 = 17;
