//! Rules for `spec.roles` and `spec.databases`, in the Common Expression Language (CEL).

use postgres_model::databases::DeclaredObjects;

use super::PostgresClusterSpec;

/// Names of roles that are part of the names of Secrets, and that PostgreSQL does not reserve.
pub(super) const ROLE_NAMES: &str = "self.all(role, role.name.matches('^[a-z]([a-z0-9_]*[a-z0-9])?$') && \
     !role.name.startsWith('pg_') && !(role.name in ['postgres', 'streaming_replica', 'ensemble_monitor', 'public', 'none']))";
pub(super) const SECRETS: &str = "self.all(role, !has(role.passwordSecretName) || (has(role.login) && role.login && \
     role.passwordSecretName.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')))";
pub(super) const MEMBERSHIPS: &str = "self.all(role, !has(role.memberOf) || !(role.name in role.memberOf))";
pub(super) const DATABASE_NAMES: &str = "self.all(database, database.name.matches('^[a-z_][a-z0-9_]*$') && \
     !(database.name in ['postgres', 'template0', 'template1']))";
/// Rules of the whole object.
pub(super) const NOT_THE_OWNER: &str = "!has(self.spec.roles) || \
     self.spec.roles.all(role, role.name != self.spec.bootstrap.initdb.owner)";
pub(super) const APPLICATION: &str = "!has(self.spec.databases) || self.spec.databases.all(database, \
     database.name != self.spec.bootstrap.initdb.database || ((!has(database.ensure) || database.ensure == 'Present') && \
     (!has(database.owner) || database.owner == self.spec.bootstrap.initdb.owner)))";

impl PostgresClusterSpec {
    /// Returns the roles and databases that the primary must have, or must not have.
    pub(crate) fn declared(&self) -> DeclaredObjects {
        DeclaredObjects { roles: self.roles.clone(), databases: self.databases.clone() }
    }
}
