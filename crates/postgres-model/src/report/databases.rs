//! What a primary reports about the roles and databases of the spec.

use serde::{Deserialize, Serialize};

use super::{MAX_PROBLEM, ReportError, check_text};

/// The last roles and databases of the spec that the primary has considered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DatabasesReport {
    /// [Fingerprint](crate::databases::DeclaredObjects::fingerprint) of them.
    pub fingerprint: u64,
    /// Why some of them are not as declared. The instance tries again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl DatabasesReport {
    pub(super) fn check(&self) -> Result<(), ReportError> {
        check_text("databases.problem", self.problem.as_ref(), MAX_PROBLEM)
    }
}
