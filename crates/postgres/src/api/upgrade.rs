//! Upgrades of the data to another major version.

use kube::KubeSchema;
use postgres_model::version::Version;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happens if spec.version is a later major version than that of the data.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MajorVersionUpdate {
    /// The former version keeps running.
    #[default]
    Refuse,
    /// All members stop, and `pg_upgrade` upgrades the data of the primary.
    Upgrade,
}

/// An upgrade of the data to another major version.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MajorUpgradeStatus {
    /// from is the version that ran before.
    pub from: String,

    /// to is the version of the upgraded data.
    pub to: String,

    /// member is the member whose data are upgraded: the primary. The others are replaced by copies of it.
    pub member: String,

    /// started is true once the member runs with the programs of the new version. From then on, the upgrade
    /// cannot be cancelled.
    #[serde(default)]
    pub started: bool,

    /// done is true once the data are upgraded. The former version cannot run on them.
    #[serde(default)]
    pub done: bool,

    /// failure says why the data were not upgraded. The members run the former version again.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub failure: String,

    /// firstBackup is the name of the last attempt at the first backup of the upgraded database.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub first_backup: String,
}

impl MajorUpgradeStatus {
    /// Returns whether the upgrade has neither succeeded nor failed. All members are stopped meanwhile.
    pub(crate) fn is_in_progress(&self) -> bool {
        !self.done && !self.has_failed()
    }

    /// Returns whether the upgrade has failed, or was cancelled.
    pub(crate) fn has_failed(&self) -> bool {
        !self.failure.is_empty()
    }

    /// Returns the major version of the upgraded data.
    pub(crate) fn to_major(&self) -> Option<u16> {
        major(&self.to)
    }
}

/// Returns the major version of a version in a status.
pub(crate) fn major(version: &str) -> Option<u16> {
    version.parse().ok().map(Version::major)
}
