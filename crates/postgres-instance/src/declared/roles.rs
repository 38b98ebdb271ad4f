//! Roles of the spec.

use std::{collections::BTreeSet, fmt, path::Path};

use anyhow::{Context, Result};
use jiff::Timestamp;
use postgres_model::databases::{DeclaredRole, Ensure};
use postgres_protocol::{
    escape::{escape_identifier, escape_literal},
    password::scram_sha_256,
};
use tokio_postgres::Row;

use super::Problems;
use crate::{
    configuration::MAINTENANCE,
    session::{Login, QUERY, Session, SessionError},
};

/// The roles of a spec, and a session in which to change them.
pub(super) struct DeclaredRoles<'a> {
    pub(super) session: &'a Session,
    pub(super) roles: &'a [DeclaredRole],
}

impl DeclaredRoles<'_> {
    /// Creates and changes the roles that must exist, and then their memberships in each other. Returns those
    /// that did not exist, which have no password yet.
    pub(super) async fn create(&self, problems: &mut Problems) -> BTreeSet<&str> {
        let (mut members, mut created) = (Vec::new(), BTreeSet::new());
        for role in self.roles.iter().filter(|role| role.ensure == Ensure::Present) {
            match self.create_one(role).await {
                Ok(present) => members.push((role, present)),
                Err(error) => problems.add(&format!("role {}", role.name), &error),
            }
        }
        for (role, present) in members {
            if present.is_none() {
                created.insert(role.name.as_str());
            }
            for statement in memberships(role, &present.unwrap_or_default()) {
                if let Err(error) = self.session.execute("change of a membership", QUERY, &statement).await {
                    problems.add(&format!("role {}", role.name), &error.into());
                }
            }
        }
        created
    }

    /// Creates or changes a role. Returns the roles that it was a member of, or `None` if it did not exist.
    async fn create_one(&self, role: &DeclaredRole) -> Result<Option<BTreeSet<String>>> {
        let wanted = Attributes::of(role)?;
        let query = format!("{ROLE} WHERE rolname = {}", escape_literal(&role.name));
        let rows = self.session.rows("query for a role", QUERY, &query).await?;
        let present = rows.first();
        let attributes = present.map(Attributes::read).transpose().context("cannot read the role")?;
        if attributes.as_ref() != Some(&wanted) {
            let action = if attributes.is_some() { "ALTER" } else { "CREATE" };
            let statement = format!("{action} ROLE {} WITH{wanted}", escape_identifier(&role.name));
            self.session.execute("attributes of a role", QUERY, &statement).await?;
        }
        let names = present.map(|row| row.try_get::<_, Vec<String>>("member_of")).transpose()?;
        Ok(names.map(|names| names.into_iter().collect()))
    }

    /// Sets the password of a role, unless the role can log in with it.
    ///
    /// # Errors
    /// Returns an error if PostgreSQL does not answer, or refuses the password.
    pub(super) async fn set_password(
        &self,
        socket: &Path,
        role: &str,
        password: &str,
    ) -> Result<(), SessionError> {
        if Session::log_in(socket, MAINTENANCE, role, password).await? == Login::Accepted {
            return Ok(());
        }
        // The server gets a verifier, so that it cannot log the password.
        let verifier = escape_literal(&scram_sha_256(password.as_bytes()));
        let statement = format!("ALTER ROLE {} WITH PASSWORD {verifier}", escape_identifier(role));
        self.session.execute("password of a role", QUERY, &statement).await
    }

    /// Drops the roles that must not exist.
    pub(super) async fn drop(&self, problems: &mut Problems) {
        for role in self.roles.iter().filter(|role| role.ensure == Ensure::Absent) {
            let statement = format!("DROP ROLE IF EXISTS {}", escape_identifier(&role.name));
            if let Err(error) = self.session.execute("removal of a role", QUERY, &statement).await {
                problems.add(&format!("role {}", role.name), &error.into());
            }
        }
    }
}

/// Attributes of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Attributes {
    /// The names in `CREATE ROLE`, and whether they are set.
    flags: [(&'static str, bool); 7],
    connection_limit: i32,
    /// Seconds since 1970.
    valid_until: Option<i64>,
}

impl Attributes {
    fn of(role: &DeclaredRole) -> Result<Self> {
        let until = role.valid_until.as_ref().map(|time| {
            let time = time.parse::<Timestamp>().with_context(|| format!("validUntil is no time: {time}"))?;
            anyhow::Ok(time.as_second())
        });
        let flags = [
            role.login,
            role.superuser,
            role.create_database,
            role.create_role,
            role.inherit,
            role.replication,
            role.bypass_rls,
        ];
        Ok(Self::new(flags, role.connection_limit, until.transpose()?))
    }

    fn read(row: &Row) -> Result<Self, tokio_postgres::Error> {
        let mut flags = [false; 7];
        for (place, flag) in flags.iter_mut().enumerate() {
            *flag = row.try_get(place)?;
        }
        Ok(Self::new(flags, row.try_get("connection_limit")?, row.try_get("valid_until")?))
    }

    fn new(flags: [bool; 7], connection_limit: i32, valid_until: Option<i64>) -> Self {
        let [login, superuser, database, role, inherit, replication, rls] = flags;
        let flags = [
            ("LOGIN", login),
            ("SUPERUSER", superuser),
            ("CREATEDB", database),
            ("CREATEROLE", role),
            ("INHERIT", inherit),
            ("REPLICATION", replication),
            ("BYPASSRLS", rls),
        ];
        Self { flags, connection_limit, valid_until }
    }
}

/// Writes the attributes as options of `CREATE ROLE`, each after a space.
impl fmt::Display for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, is_set) in self.flags {
            write!(f, " {}{name}", if is_set { "" } else { "NO" })?;
        }
        write!(f, " CONNECTION LIMIT {} VALID UNTIL ", self.connection_limit)?;
        match self.valid_until.map(Timestamp::from_second) {
            Some(Ok(time)) => write!(f, "'{time}'"),
            _ => f.write_str("'infinity'"),
        }
    }
}

/// Returns the statements that give a role the memberships of the spec.
fn memberships(role: &DeclaredRole, present: &BTreeSet<String>) -> Vec<String> {
    let (name, wanted) = (escape_identifier(&role.name), role.member_of.iter().cloned().collect());
    let grants = BTreeSet::difference(&wanted, present);
    let grants = grants.map(|other| format!("GRANT {} TO {name}", escape_identifier(other)));
    let revokes = present.difference(&wanted);
    let revokes = revokes.map(|other| format!("REVOKE {} FROM {name}", escape_identifier(other)));
    grants.chain(revokes).collect()
}

/// The flags in the order of [`Attributes::new`]. Memberships that others have granted, or that come with
/// the right to create roles, are left out: they are not ours.
const ROLE: &str = "\
SELECT rolcanlogin, rolsuper, rolcreatedb, rolcreaterole, rolinherit, rolreplication, rolbypassrls,
       rolconnlimit AS connection_limit,
       CASE WHEN isfinite(rolvaliduntil) THEN extract(epoch FROM rolvaliduntil)::bigint END AS valid_until,
       ARRAY(SELECT granted.rolname::text FROM pg_auth_members AS membership
             JOIN pg_roles AS granted ON granted.oid = membership.roleid
             JOIN pg_roles AS grantor ON grantor.oid = membership.grantor
             WHERE membership.member = pg_roles.oid AND NOT membership.admin_option
               AND grantor.rolname = 'postgres') AS member_of
FROM pg_roles";

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn role(fields: &Value) -> DeclaredRole {
        let mut role = json!({"name": "it's \"r\""});
        role.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(role).unwrap()
    }

    #[test]
    fn attributes_are_options_of_create_role() {
        let role =
            role(&json!({"login": true, "createDatabase": true, "inherit": false, "connectionLimit": 5,
            "validUntil": "2027-01-01T01:00:00+01:00"}));
        assert_eq!(
            Attributes::of(&role).unwrap().to_string(),
            " LOGIN NOSUPERUSER CREATEDB NOCREATEROLE NOINHERIT NOREPLICATION NOBYPASSRLS CONNECTION LIMIT 5 \
             VALID UNTIL '2027-01-01T00:00:00Z'"
        );
        let role = self::role(&json!({"validUntil": "soon"}));
        assert_eq!(Attributes::of(&role).unwrap_err().to_string(), "validUntil is no time: soon");
    }

    #[test]
    fn memberships_follow_the_spec_and_names_are_quoted() {
        let role = role(&json!({"memberOf": ["pg_monitor", "b\"c"]}));
        let present = ["pg_monitor".to_owned(), "old".to_owned()].into();
        assert_eq!(
            memberships(&role, &present),
            [r#"GRANT "b""c" TO "it's ""r""""#, r#"REVOKE "old" FROM "it's ""r""""#]
        );
        assert!(memberships(&role, &["pg_monitor".to_owned(), "b\"c".to_owned()].into()).is_empty());
    }
}
