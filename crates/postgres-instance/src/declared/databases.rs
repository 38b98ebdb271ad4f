//! Databases of the spec, and their extensions.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use postgres_model::databases::{DeclaredDatabase, DeclaredExtension, Ensure};
use postgres_protocol::escape::{escape_identifier, escape_literal};
use tokio_postgres::Row;

use super::Problems;
use crate::session::{DATABASE, QUERY, Session};

/// A session in which to change databases.
pub(super) struct Databases<'a> {
    pub(super) session: &'a Session,
    pub(super) socket: &'a Path,
    /// The role that owns a database whose owner is not given.
    pub(super) owner: &'a str,
}

impl Databases<'_> {
    /// Creates, changes, and drops databases.
    pub(super) async fn ensure(&self, databases: &[DeclaredDatabase], problems: &mut Problems) {
        for database in databases {
            if let Err(error) = self.ensure_one(database).await {
                problems.add(&format!("database {}", database.name), &error);
            }
        }
    }

    async fn ensure_one(&self, database: &DeclaredDatabase) -> Result<()> {
        if database.ensure == Ensure::Absent {
            let statement = format!("DROP DATABASE IF EXISTS {}", escape_identifier(&database.name));
            return Ok(self.session.execute("removal of a database", DATABASE, &statement).await?);
        }
        let owner = database.owner.as_deref().unwrap_or(self.owner);
        let query = format!("{PRESENT} WHERE datname = {}", escape_literal(&database.name));
        let rows = self.session.rows("query for a database", QUERY, &query).await?;
        match rows.first().map(Present::read).transpose().context("cannot read the database")? {
            None => {
                let statement = create(database, owner);
                self.session.execute("creation of a database", DATABASE, &statement).await?;
            }
            Some(present) => {
                for statement in changes(database, owner, &present) {
                    self.session.execute("change of a database", QUERY, &statement).await?;
                }
                let locale = database.locale.as_deref().unwrap_or(&present.locale);
                ensure!(
                    locale == present.locale,
                    "the locale cannot be changed: it is {}, and the spec says {locale}",
                    present.locale
                );
            }
        }
        self.ensure_extensions(database).await
    }

    async fn ensure_extensions(&self, database: &DeclaredDatabase) -> Result<()> {
        if database.extensions.is_empty() {
            return Ok(());
        }
        let session = Session::connect_to_change(self.socket, Some(&database.name)).await?;
        let rows = session.rows("query for extensions", QUERY, EXTENSIONS).await?;
        let present: Vec<_> = rows.iter().map(extension).collect::<Result<_, _>>()?;
        for extension in &database.extensions {
            let known = present.iter().find(|(name, _)| *name == extension.name);
            let Some(statement) = change(extension, known.map(|(_, version)| version.as_str())) else {
                continue;
            };
            let changed = session.execute("creation of an extension", DATABASE, &statement).await;
            changed.with_context(|| format!("extension {}", extension.name))?;
        }
        Ok(())
    }
}

/// A database that exists.
struct Present {
    owner: String,
    connection_limit: i32,
    locale: String,
}

impl Present {
    fn read(row: &Row) -> Result<Self, tokio_postgres::Error> {
        Ok(Self { owner: row.try_get(0)?, connection_limit: row.try_get(1)?, locale: row.try_get(2)? })
    }
}

fn extension(row: &Row) -> Result<(String, String), tokio_postgres::Error> {
    Ok((row.try_get(0)?, row.try_get(1)?))
}

/// Returns the statement that creates a database. Only the template without rows can have another locale.
fn create(database: &DeclaredDatabase, owner: &str) -> String {
    let (name, owner) = (escape_identifier(&database.name), escape_identifier(owner));
    let locale = database.locale.as_ref();
    let locale = locale.map(|it| format!(" TEMPLATE template0 LOCALE {}", escape_literal(it)));
    let limit = database.connection_limit;
    format!("CREATE DATABASE {name} OWNER {owner}{} CONNECTION LIMIT {limit}", locale.unwrap_or_default())
}

/// Returns the statements that change a database as the spec says.
fn changes(database: &DeclaredDatabase, owner: &str, present: &Present) -> Vec<String> {
    let name = escape_identifier(&database.name);
    let owner = (owner != present.owner)
        .then(|| format!("ALTER DATABASE {name} OWNER TO {}", escape_identifier(owner)));
    let limit = database.connection_limit;
    let limit = (limit != present.connection_limit)
        .then(|| format!("ALTER DATABASE {name} CONNECTION LIMIT {limit}"));
    owner.into_iter().chain(limit).collect()
}

/// Returns the statement that creates or updates an extension. `present` is the version that exists.
fn change(extension: &DeclaredExtension, present: Option<&str>) -> Option<String> {
    let (name, version) = (escape_identifier(&extension.name), extension.version.as_deref());
    match (present, version) {
        (None, None) => Some(format!("CREATE EXTENSION {name} CASCADE")),
        (None, Some(version)) => {
            Some(format!("CREATE EXTENSION {name} VERSION {} CASCADE", escape_literal(version)))
        }
        (Some(present), Some(version)) if present != version => {
            Some(format!("ALTER EXTENSION {name} UPDATE TO {}", escape_literal(version)))
        }
        (Some(_), _) => None,
    }
}

const PRESENT: &str = "\
SELECT pg_get_userbyid(datdba)::text, datconnlimit, datcollate::text FROM pg_database";

const EXTENSIONS: &str = "SELECT extname::text, extversion FROM pg_extension";

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn database(json: Value) -> DeclaredDatabase {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn database_is_created_and_changed_as_the_spec_says() {
        let plain = database(json!({"name": "d"}));
        assert_eq!(create(&plain, "app"), r#"CREATE DATABASE "d" OWNER "app" CONNECTION LIMIT -1"#);
        let sorted = database(json!({"name": "d", "locale": "de_DE.UTF-8", "connectionLimit": 9}));
        assert_eq!(
            create(&sorted, "o\"o"),
            r#"CREATE DATABASE "d" OWNER "o""o" TEMPLATE template0 LOCALE 'de_DE.UTF-8' CONNECTION LIMIT 9"#
        );
        let present = Present { owner: "app".into(), connection_limit: -1, locale: "C.UTF-8".into() };
        assert!(changes(&plain, "app", &present).is_empty());
        assert_eq!(
            changes(&sorted, "other", &present),
            [r#"ALTER DATABASE "d" OWNER TO "other""#, r#"ALTER DATABASE "d" CONNECTION LIMIT 9"#]
        );
    }

    #[test]
    fn extension_is_created_once_and_updated_to_a_version() {
        let extension =
            |version: Value| serde_json::from_value(json!({"name": "e", "version": version})).unwrap();
        let (any, second) = (extension(Value::Null), extension("2".into()));
        assert_eq!(change(&any, None).unwrap(), r#"CREATE EXTENSION "e" CASCADE"#);
        assert_eq!(change(&second, None).unwrap(), r#"CREATE EXTENSION "e" VERSION '2' CASCADE"#);
        assert_eq!(change(&second, Some("1")).unwrap(), r#"ALTER EXTENSION "e" UPDATE TO '2'"#);
        assert_eq!((change(&any, Some("1")), change(&second, Some("2"))), (None, None));
    }
}
