//! How members are replaced after a change of the spec.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MajorVersionUpdate;

/// Updates decides how the members are replaced after a change of the version, the image, the
/// resources, or the placement: the standbys one after the other, and the primary last.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Updates {
    /// primary decides when the primary is replaced. Automatic: after the standbys, with a switchover.
    /// Manual: after you have requested a switchover.
    #[serde(default)]
    pub primary: PrimaryUpdate,

    /// majorVersion decides what happens if version is a later major version than that of the data. Refuse: the
    /// former version keeps running. Upgrade: all members stop, pg_upgrade upgrades the data of the primary,
    /// and the other members are replaced by copies of it. Take a backup before: it is the way back once
    /// the new version has taken writes.
    #[serde(default)]
    pub major_version: MajorVersionUpdate,
}

/// When the primary is replaced.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PrimaryUpdate {
    /// After the standbys, with a switchover.
    #[default]
    Automatic,
    /// After a person has requested a switchover.
    Manual,
}
