//! Volumes of a former cluster of the same name.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a new cluster does with volumes that a former cluster of its name has left.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FormerVolumes {
    /// The members use them, with their data.
    #[default]
    Adopt,
    /// The cluster is not created.
    Refuse,
    /// The members get new volumes and a new database. The former volumes stay untouched.
    Fresh,
}

/// The former cluster whose volumes were adopted.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdoptionStatus {
    /// clusterUID is the UID of the PostgresCluster that created the database. Members start on volumes
    /// of this database and on no others.
    #[serde(rename = "clusterUID")]
    pub cluster_uid: String,

    /// majorVersion is the major version of the data, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub major_version: Option<u16>,

    /// done is true once a member with all rows is the primary.
    #[serde(default)]
    pub done: bool,
}
