//! How the database is created.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::{Recovery, adoption::FormerVolumes};

/// bootstrap decides how the database is created.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self == oldSelf")
        .message("bootstrap cannot be changed, because it describes how the database was created")
)]
pub struct Bootstrap {
    /// initdb creates a new, empty database for an application. With recovery, it names the database and
    /// the role of the application: what the backup does not have is created.
    #[serde(default)]
    pub initdb: Initdb,

    /// recovery creates the database from a backup instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,

    /// volumes decides what happens if a former cluster of the same name has left volumes.
    #[serde(default)]
    pub volumes: FormerVolumes,
}

/// initdb describes a new database.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Initdb {
    /// database is the name of the application's database.
    #[serde(default = "application")]
    #[schemars(length(max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z_][a-z0-9_]*$') && !(self in ['postgres', 'template0', 'template1'])")
        .message("database must begin with a lower case letter or '_', contain only lower case letters, digits, and '_', and not be postgres, template0, or template1"))]
    pub database: String,

    /// owner is the name of the application's role, which owns the database. Its password is in the
    /// Secret that is named after the cluster and ends with -app.
    #[serde(default = "application")]
    #[schemars(length(max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z_][a-z0-9_]*$') && !self.startsWith('pg_') && !(self in ['postgres', 'streaming_replica', 'ensemble_monitor', 'public', 'none'])")
        .message("owner must begin with a lower case letter or '_', contain only lower case letters, digits, and '_', not begin with pg_, and not be postgres, streaming_replica, ensemble_monitor, public, or none"))]
    pub owner: String,
}

impl Default for Initdb {
    fn default() -> Self {
        Self { database: application(), owner: application() }
    }
}

/// Returns the default name of the database and of its owner.
fn application() -> String {
    "app".to_owned()
}
