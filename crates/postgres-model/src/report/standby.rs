//! Standbys that a primary sees in `pg_stat_replication`.

use serde::{Deserialize, Serialize};

use crate::lsn::Lsn;

/// Row of `pg_stat_replication`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StandbyReport {
    /// `application_name`: the name of the member.
    pub name: String,
    /// `state`.
    pub state: WalSenderState,
    /// `sync_state`.
    pub sync_state: SyncState,
    /// `flush_lsn`: the end of the WAL that the standby has on disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flushed: Option<Lsn>,
}

/// Column `state` of `pg_stat_replication`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WalSenderState {
    /// The WAL sender starts.
    Startup,
    /// The standby catches up with the primary.
    Catchup,
    /// The standby has caught up, and receives changes as they happen.
    Streaming,
    /// The WAL sender sends a base backup.
    Backup,
    /// The WAL sender stops.
    Stopping,
    /// A state that this version does not know.
    #[serde(other)]
    Unknown,
}

/// Column `sync_state` of `pg_stat_replication`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SyncState {
    /// Commits do not wait for the standby.
    Async,
    /// The standby becomes synchronous if one before it fails.
    Potential,
    /// Commits wait for the standby.
    Sync,
    /// The standby is one of those of which commits wait for some.
    Quorum,
    /// A state that this version does not know.
    #[serde(other)]
    Unknown,
}
