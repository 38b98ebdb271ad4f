//! What a member reports about a recovery from an archive.

use serde::{Deserialize, Serialize};

use super::{MAX_PROBLEM, MAX_TEXT, ReportError, check_text};

/// A recovery from an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecoveryReport {
    /// Identifier of the base backup that is restored. `None` until it is chosen, and after the instance
    /// has started again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<String>,
    /// Whether the backup is restored, so that WAL is replayed.
    #[serde(default)]
    pub replays: bool,
    /// Why the recovery does not go on. The instance tries again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl RecoveryReport {
    pub(super) fn check(&self) -> Result<(), ReportError> {
        check_text("recovery.backup", self.backup.as_ref(), MAX_TEXT)?;
        check_text("recovery.failure", self.failure.as_ref(), MAX_PROBLEM)
    }
}
