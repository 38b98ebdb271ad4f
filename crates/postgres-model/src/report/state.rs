//! States of an instance.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// State of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum InstanceState {
    /// Postgres is down. The instance waits for a decision of the operator.
    Hold,
    /// `initdb` runs.
    Init,
    /// `pg_basebackup` copies another member.
    Clone,
    /// A backup is being restored, or WAL is replayed up to the end of the recovery.
    Restore,
    /// Postgres runs as a standby.
    Standby,
    /// Postgres runs as a standby that receives nothing, until the operator has chosen a primary.
    Sealed,
    /// The standby is being promoted.
    Promoting,
    /// Postgres runs as the primary.
    Primary,
    /// Postgres is shutting down.
    Stopping,
    /// Postgres was stopped, because the Lease expired or a person fenced the member.
    Fenced,
    /// `pg_rewind` removes WAL that the primary lacks.
    Rewind,
    /// `pg_upgrade` upgrades the data to another major version.
    Upgrade,
    /// Postgres was stopped, because the volume is full. It starts when there is more space.
    DiskFull,
    /// A state that this version does not know.
    #[serde(other)]
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_states_can_be_read() {
        let state = |json| serde_json::from_str::<InstanceState>(json).unwrap();
        assert_eq!(state("\"DiskFull\""), InstanceState::DiskFull);
        assert_eq!(state("\"Hibernating\""), InstanceState::Unknown);
        assert!(serde_json::from_str::<InstanceState>("7").is_err());
    }
}
