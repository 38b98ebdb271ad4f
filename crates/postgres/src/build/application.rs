//! The Secrets with which an application and the roles of the spec connect.

use kube::ResourceExt;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use postgres_model::databases::{DeclaredDatabase, Ensure};

use super::{
    PORT,
    secret::{Content, PASSWORD, content},
    service::Access,
};
use crate::api::PostgresCluster;

/// Characters of a new password. None of them has a meaning in a connection string.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Who connects to what.
#[derive(Clone, Copy)]
pub(crate) struct Login<'a> {
    pub(crate) role: &'a str,
    pub(crate) database: &'a str,
}

impl<'a> Login<'a> {
    /// Returns the login of the application.
    pub(crate) fn of_application(cluster: &'a PostgresCluster) -> Self {
        let initdb = &cluster.spec.bootstrap.initdb;
        Self { role: &initdb.owner, database: &initdb.database }
    }

    /// Returns the login of a role of the spec: to the first database of the spec that it owns, or to that
    /// of the application.
    pub(crate) fn of_role(cluster: &'a PostgresCluster, role: &'a str) -> Self {
        let owned = |database: &&DeclaredDatabase| {
            database.ensure == Ensure::Present && database.owner.as_deref() == Some(role)
        };
        let database = cluster.spec.databases.iter().find(owned);
        let database = database.map_or(&cluster.spec.bootstrap.initdb.database, |database| &database.name);
        Self { role, database }
    }
}

/// Returns the content of a Secret. The keys are those that clients and their libraries expect.
pub(crate) fn connection(cluster: &PostgresCluster, login: Login<'_>, password: &str) -> Content {
    let Login { role, database } = login;
    let namespace = cluster.namespace().unwrap_or_default();
    let host = format!("{}.{namespace}.svc", Access::ReadWrite.name(cluster));
    let encoded = utf8_percent_encode(password, NON_ALPHANUMERIC);
    let escaped = password.replace('\\', "\\\\").replace(':', "\\:");
    content([
        ("username", role.as_bytes()),
        (PASSWORD, password.as_bytes()),
        ("dbname", database.as_bytes()),
        ("host", host.as_bytes()),
        ("port", PORT.to_string().as_bytes()),
        ("uri", format!("postgresql://{role}:{encoded}@{host}:{PORT}/{database}").as_bytes()),
        (
            "jdbc-uri",
            format!("jdbc:postgresql://{host}:{PORT}/{database}?user={role}&password={encoded}").as_bytes(),
        ),
        ("pgpass", format!("{host}:{PORT}:{database}:{role}:{escaped}\n").as_bytes()),
    ])
}

/// Returns a password with six bits of entropy for each of the random bytes.
pub(crate) fn password(random: &[u8]) -> String {
    let letter = |byte: &u8| ALPHABET.get(usize::from(byte & 63)).copied().map(char::from);
    random.iter().filter_map(letter).collect()
}

/// Returns whether PostgreSQL and its clients can use a password.
pub(crate) fn is_usable(password: &str) -> bool {
    password.len() <= 256 && !password.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{api::fixture::cluster, build::secret::value};

    #[test]
    fn special_characters_of_a_password_are_escaped() {
        let cluster = cluster(&json!({"bootstrap": {"initdb": {"database": "orders", "owner": "shop"}}}));
        let content = connection(&cluster, Login::of_application(&cluster), r"p@ss:w\rd");
        let text = |key: &str| String::from_utf8(value(&content, key).to_vec()).unwrap();
        assert_eq!(text("uri"), "postgresql://shop:p%40ss%3Aw%5Crd@db-rw.shop.svc:5432/orders");
        assert_eq!(text("pgpass"), "db-rw.shop.svc:5432:orders:shop:p@ss\\:w\\\\rd\n");
        assert!(text("jdbc-uri").ends_with("/orders?user=shop&password=p%40ss%3Aw%5Crd"));
        assert_eq!((text("username"), text("password")), ("shop".into(), r"p@ss:w\rd".into()));
        assert_eq!((text("dbname"), text("port")), ("orders".into(), "5432".into()));
    }

    #[test]
    fn role_connects_to_the_first_database_that_it_owns() {
        let cluster = cluster(&json!({
            "roles": [{"name": "a", "login": true}, {"name": "b", "login": true}],
            "databases": [
                {"name": "former", "owner": "b", "ensure": "Absent"},
                {"name": "first", "owner": "b"},
                {"name": "second", "owner": "b"},
            ],
        }));
        assert_eq!(Login::of_role(&cluster, "a").database, "app");
        assert_eq!(Login::of_role(&cluster, "b").database, "first");
    }

    #[test]
    fn passwords_are_printable() {
        assert_eq!(password(&[0, 26, 63, 64, 255]), "Aa_A_");
        for (password, expected) in [("Aa_-", true), ("p@ss wörd", true), ("a\nb", false), ("a\0", false)] {
            assert_eq!(is_usable(password), expected, "{password:?}");
        }
        assert!(!is_usable(&"x".repeat(257)));
    }
}
