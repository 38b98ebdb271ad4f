//! Roles and databases in the spec of a PostgresCluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fingerprint::Fnv;

/// Roles and databases that the primary must have, or must not have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredObjects {
    /// The roles.
    #[serde(default)]
    pub roles: Vec<DeclaredRole>,
    /// The databases.
    #[serde(default)]
    pub databases: Vec<DeclaredDatabase>,
}

impl DeclaredObjects {
    /// Returns whether nothing is declared.
    pub fn is_empty(&self) -> bool {
        self.roles.is_empty() && self.databases.is_empty()
    }

    /// Returns a number that differs for different objects: the FNV-1a hash of their JSON.
    pub fn fingerprint(&self) -> u64 {
        // These types have only strings as keys, so they can be serialized.
        Fnv::default().with(&serde_json::to_vec(self).unwrap_or_default()).finish()
    }
}

/// Whether an object must exist.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ensure {
    /// It must exist.
    #[default]
    Present,
    /// It must not exist.
    Absent,
}

/// A role of PostgreSQL. What the spec leaves out has the default of `CREATE ROLE`.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_excessive_bools, reason = "each is an attribute of a role")]
pub struct DeclaredRole {
    /// name is the name of the role.
    #[schemars(length(max = 63))]
    pub name: String,

    /// ensure is Present, or Absent to drop the role. PostgreSQL drops no role that owns objects or has
    /// privileges. A role whose entry is removed from the list stays as it is.
    #[serde(default, skip_serializing_if = "is_present")]
    pub ensure: Ensure,

    /// login lets the role log in with a password. The password is in the Secret that is named after the
    /// cluster and ends with -role- and the name of the role, unless passwordSecretName is set.
    #[serde(default, skip_serializing_if = "is_false")]
    pub login: bool,

    /// passwordSecretName is the name of a Secret of yours with the key password. A change takes effect
    /// within about ten minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub password_secret_name: Option<String>,

    /// memberOf lists the roles that the role is a member of. The membership in another role is revoked
    /// if the superuser postgres has granted it without the admin option.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 63)))]
    pub member_of: Vec<String>,

    /// superuser lets the role do everything in PostgreSQL.
    #[serde(default, skip_serializing_if = "is_false")]
    pub superuser: bool,

    /// createDatabase lets the role create databases.
    #[serde(default, skip_serializing_if = "is_false")]
    pub create_database: bool,

    /// createRole lets the role create roles.
    #[serde(default, skip_serializing_if = "is_false")]
    pub create_role: bool,

    /// inherit lets the role use the privileges of the roles that it is a member of.
    #[serde(default = "is_true", skip_serializing_if = "is_set")]
    pub inherit: bool,

    /// replication lets the role use logical replication.
    #[serde(default, skip_serializing_if = "is_false")]
    pub replication: bool,

    /// bypassRLS lets the role see all rows in spite of row-level security.
    #[serde(default, rename = "bypassRLS", skip_serializing_if = "is_false")]
    pub bypass_rls: bool,

    /// connectionLimit is the number of connections that the role can have at the same time. -1 is no
    /// limit.
    #[serde(default = "no_limit", skip_serializing_if = "is_no_limit")]
    #[schemars(range(min = -1))]
    pub connection_limit: i32,

    /// validUntil is the time until which the password can be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub valid_until: Option<String>,
}

impl DeclaredRole {
    /// Returns whether the role needs a password.
    pub fn has_password(&self) -> bool {
        self.login && self.ensure == Ensure::Present
    }
}

/// A database of PostgreSQL.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeclaredDatabase {
    /// name is the name of the database.
    #[schemars(length(max = 63))]
    pub name: String,

    /// ensure is Present, or Absent to drop the database with all its data. PostgreSQL drops no database
    /// that has connections. A database whose entry is removed from the list stays as it is.
    #[serde(default, skip_serializing_if = "is_present")]
    pub ensure: Ensure,

    /// owner is the role that owns the database. Defaults to the owner of the application's database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub owner: Option<String>,

    /// locale decides how text is sorted, such as de_DE.UTF-8. The image of PostgreSQL must have it. It
    /// cannot be changed. Defaults to C.UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub locale: Option<String>,

    /// connectionLimit is the number of connections that the database can have at the same time. -1 is
    /// no limit.
    #[serde(default = "no_limit", skip_serializing_if = "is_no_limit")]
    #[schemars(range(min = -1))]
    pub connection_limit: i32,

    /// extensions lists extensions of the database. The image of PostgreSQL must have them. An extension
    /// whose entry is removed from the list stays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map"), extend("x-kubernetes-list-map-keys" = ["name"]))]
    pub extensions: Vec<DeclaredExtension>,
}

/// An extension of a database.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeclaredExtension {
    /// name is the name of the extension, such as pg_trgm.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,

    /// version is the version of the extension. Defaults to the one that the image prefers when the
    /// extension is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub version: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_present(ensure: &Ensure) -> bool {
    *ensure == Ensure::Present
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !value
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_set(value: &bool) -> bool {
    *value
}

fn is_true() -> bool {
    true
}

fn no_limit() -> i32 {
    -1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_no_limit(limit: &i32) -> bool {
    *limit == no_limit()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn declared(roles: &Value, databases: &Value) -> DeclaredObjects {
        serde_json::from_value(json!({"roles": roles, "databases": databases})).unwrap()
    }

    #[test]
    fn fingerprint_ignores_defaults_and_nothing_else() {
        let short = declared(&json!([{"name": "a"}]), &json!([{"name": "d"}]));
        let defaults = json!([{"name": "a", "ensure": "Present", "login": false, "inherit": true, "connectionLimit": -1}]);
        let long = declared(&defaults, &json!([{"name": "d", "connectionLimit": -1, "extensions": []}]));
        assert_eq!((short.fingerprint(), long), (short.fingerprint(), short));
        let roles = [
            json!([]),
            json!([{"name": "a"}]),
            json!([{"name": "a", "inherit": false}]),
            json!([{"name": "a", "login": true}]),
            json!([{"name": "a", "ensure": "Absent"}]),
            json!([{"name": "a", "connectionLimit": 5}]),
        ];
        let all = roles.iter().map(|roles| declared(roles, &json!([])).fingerprint());
        assert_eq!(all.collect::<std::collections::BTreeSet<_>>().len(), roles.len());
    }
}
