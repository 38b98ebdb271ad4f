//! What a member reports about an upgrade of its data.

use serde::{Deserialize, Serialize};

use super::{MAX_PROBLEM, ReportError, check_text};

/// An upgrade of the data to another major version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeReport {
    /// Major version of the data. It is the new one when the upgrade is complete.
    pub data_version: u16,
    /// Why the data could not be upgraded. They are as before then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl UpgradeReport {
    pub(super) fn check(&self) -> Result<(), ReportError> {
        check_text("upgrade.failure", self.failure.as_ref(), MAX_PROBLEM)
    }
}
