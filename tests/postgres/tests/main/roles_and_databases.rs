//! Roles and databases of the spec.

use anyhow::Context;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::api::{ObjectMeta, PostParams};
use operator_core::conditions::{find, is_true};
use postgres::PostgresClusterStatus;
use postgres_processes::{Database, Member};
use serde_json::json;

use crate::application;

/// Creates a PostgresCluster of this size with a role that reads, and one that owns a database.
async fn database(size: u8) -> Database {
    let spec = json!({
        "size": size,
        "roles": [
            {"name": "reporting", "login": true, "memberOf": ["pg_read_all_data", "analysts"], "connectionLimit": 5},
            {"name": "owner_of_reports", "login": true},
            {"name": "analysts"},
        ],
        "databases": [
            {"name": "reports", "owner": "owner_of_reports", "extensions": [{"name": "pg_trgm"}]},
            {"name": "app", "extensions": [{"name": "pg_trgm"}]},
        ],
    });
    let mut database = Database::with(spec).await.unwrap();
    until_applied(&mut database, "True", "AsSpecified").await;
    database.until_complete().await.unwrap();
    database
}

/// Waits until the condition `DatabasesApplied` is so. Returns its message.
async fn until_applied(database: &mut Database, status: &str, reason: &str) -> String {
    let condition = |known: &PostgresClusterStatus| find(&known.conditions, "DatabasesApplied").cloned();
    let is_so = |known: &PostgresClusterStatus| {
        condition(known).is_some_and(|it| (it.status.as_str(), it.reason.as_str()) == (status, reason))
    };
    database.until(&format!("DatabasesApplied to be {reason}"), is_so).await.unwrap();
    condition(&database.status).unwrap().message
}

/// Connects to the primary as a Secret says.
async fn connect(database: &mut Database, name: &str) -> tokio_postgres::Client {
    let uri = application::read_secret(&database.kubelet, name).await.unwrap().remove("uri").unwrap();
    application::connect(database.primary().unwrap(), &uri).await.unwrap()
}

/// Waits until a query of the superuser on the primary returns this text.
async fn until_shown(database: &mut Database, query: &str, expected: &str) {
    let primary = database.status.primary.current.clone();
    let check = async |members: &[Member]| {
        let member = members.iter().find(|member| member.name == primary).context("no primary")?;
        let shown = member.query(query)?;
        Ok(if shown == expected { Ok(()) } else { Err(shown) })
    };
    database.kubelet.until(&format!("{query} to be {expected}"), check).await.unwrap();
}

const MEMBERSHIPS: &str = "\
SELECT string_agg(granted.rolname, ' ' ORDER BY granted.rolname) FROM pg_auth_members \
JOIN pg_roles AS granted ON granted.oid = roleid JOIN pg_roles AS member ON member.oid = pg_auth_members.member \
WHERE member.rolname = 'reporting'";

#[tokio::test]
async fn roles_and_databases_are_as_declared_on_every_primary() {
    let mut database = database(2).await;
    let owner = connect(&mut database, "db-role-owner-of-reports").await;
    let row = owner.query_one("SELECT current_database()::text, similarity('a', 'a')", &[]).await.unwrap();
    assert_eq!((row.get::<_, &str>(0), row.get::<_, f32>(1)), ("reports", 1.0));
    owner.batch_execute("CREATE SCHEMA sales").await.unwrap();
    let secret = application::read_secret(&database.kubelet, "db-role-reporting").await.unwrap();
    assert_eq!((secret["username"].as_str(), secret["dbname"].as_str()), ("reporting", "app"));
    until_shown(&mut database, MEMBERSHIPS, "analysts pg_read_all_data").await;

    let roles = json!([
        {"name": "reporting", "login": true, "memberOf": ["pg_monitor"], "createDatabase": true,
         "validUntil": "2999-01-01T00:00:00Z"},
        {"name": "owner_of_reports", "login": true},
    ]);
    database.change(json!({"roles": roles})).await.unwrap();
    until_shown(&mut database, MEMBERSHIPS, "pg_monitor").await;
    let attributes = "SELECT concat_ws(' ', rolcreatedb, rolconnlimit, extract(year FROM rolvaliduntil AT TIME ZONE \
                      'UTC')) FROM pg_roles WHERE rolname = 'reporting'";
    until_shown(&mut database, attributes, "t -1 2999").await;
    until_shown(&mut database, "SELECT rolname::text FROM pg_roles WHERE rolname = 'analysts'", "analysts")
        .await;
    until_applied(&mut database, "True", "AsSpecified").await;

    database.primary().unwrap().kill().unwrap();
    database.until_failed_over().await.unwrap();
    until_applied(&mut database, "True", "AsSpecified").await;
    let reporting = connect(&mut database, "db-role-reporting").await;
    reporting.query_one("SELECT similarity('a', 'b')", &[]).await.unwrap();
}

#[tokio::test]
async fn objects_that_postgresql_refuses_stop_no_others() {
    let mut database = Database::with(json!({
        "size": 1,
        "roles": [{"name": "lost", "memberOf": ["nobody"]}, {"name": "found"}],
        "databases": [
            {"name": "a", "extensions": [{"name": "nowhere"}]},
            {"name": "b", "locale": "xx_XX"},
            {"name": "c", "owner": "nobody"},
            {"name": "d", "owner": "found"},
        ],
    }))
    .await
    .unwrap();
    let message = until_applied(&mut database, "False", "DatabasesFailed").await;
    for part in [
        r#"role lost: PostgreSQL refused the change of a membership: role "nobody" does not exist"#,
        "database a: extension nowhere: PostgreSQL refused the creation of an extension: ",
        "database b: PostgreSQL refused the creation of a database: invalid ",
        r#"database c: PostgreSQL refused the creation of a database: role "nobody" does not exist"#,
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert!(!message.contains("role found") && !message.contains("database d"), "{message}");
    let owner = "SELECT pg_get_userbyid(datdba)::text FROM pg_database WHERE datname = 'd'";
    until_shown(&mut database, owner, "found").await;

    // What must not exist is dropped as soon as nobody uses it, and a role after its databases.
    let uri = application::read_secret(&database.kubelet, "db-app").await.unwrap().remove("uri").unwrap();
    let uri = uri.strip_suffix("/app").unwrap().to_owned() + "/d";
    let user = application::connect(database.primary().unwrap(), &uri).await.unwrap();
    let absent = json!({
        "roles": [{"name": "found", "ensure": "Absent"}],
        "databases": [{"name": "d", "ensure": "Absent"}],
    });
    database.change(absent).await.unwrap();
    let is_used = |status: &PostgresClusterStatus| {
        find(&status.conditions, "DatabasesApplied").is_some_and(|condition| {
            condition.message.contains(r#"database "d" is being accessed by other users"#)
                && condition
                    .message
                    .contains(r#"role "found" cannot be dropped because some objects depend on it"#)
        })
    };
    database.until("the database to be in use", is_used).await.unwrap();
    drop(user);
    until_applied(&mut database, "True", "AsSpecified").await;
    let left = "SELECT (SELECT count(*) FROM pg_database WHERE datname = 'd') || ' ' || (SELECT count(*) FROM pg_roles \
                WHERE rolname = 'found')";
    until_shown(&mut database, left, "0 0").await;
}

#[tokio::test]
async fn password_of_a_secret_of_the_user_is_used() {
    let role = json!({"name": "reporting", "login": true, "passwordSecretName": "mine"});
    let mut database = Database::with(json!({"size": 1, "roles": [role]})).await.unwrap();
    let is_missing = |status: &PostgresClusterStatus| {
        find(&status.conditions, "Scaling").is_some_and(|condition| {
            condition.reason == "InvalidPassword"
                && condition.message.ends_with(
                    "/mine, which spec.roles names for the role reporting, does not exist, or has no key password; \
                     create it",
                )
        })
    };
    database.until("the Secret to be missed", is_missing).await.unwrap();
    let metadata = ObjectMeta { name: Some("mine".into()), ..ObjectMeta::default() };
    let data = [("password".to_owned(), ByteString(b"p@ss".to_vec()))].into();
    let mine = Secret { metadata, data: Some(data), ..Secret::default() };
    database.kubelet.api::<Secret>().create(&PostParams::default(), &mine).await.unwrap();
    let passwords = database.kubelet.api::<Secret>();
    let check = async |_: &[Member]| {
        let secret = passwords.get_opt("db-roles").await?.and_then(|secret| secret.data).unwrap_or_default();
        let known: Vec<_> = secret.keys().cloned().collect();
        Ok(if known == ["reporting"] { Ok(()) } else { Err(known) })
    };
    database.kubelet.until("the password to be given to the members", check).await.unwrap();
    database.kubelet.remount().await.unwrap();
    until_applied(&mut database, "True", "AsSpecified").await;
    database.until_complete().await.unwrap();
    let uri = "postgresql://reporting:p%40ss@db-rw:5432/app";
    application::connect(database.primary().unwrap(), uri).await.unwrap();
    assert!(
        application::read_secret(&database.kubelet, "db-role-reporting").await.is_err(),
        "the Secret of the user is enough"
    );
    assert!(!database.kubelet.logs().contains("p@ss"), "the password is in a log");

    // A role that comes back has its password again.
    let role = |ensure: &str, login: bool| {
        let mut role = json!({"name": "reporting", "ensure": ensure, "login": login});
        if login {
            role["passwordSecretName"] = json!("mine");
        }
        json!({"roles": [role]})
    };
    database.change(role("Absent", false)).await.unwrap();
    until_shown(&mut database, "SELECT count(*) FROM pg_roles WHERE rolname = 'reporting'", "0").await;
    database.change(role("Present", true)).await.unwrap();
    let is_back = |status: &PostgresClusterStatus| {
        status.observed_generation == Some(3) && is_true(&status.conditions, "DatabasesApplied")
    };
    database.until("the role to be back", is_back).await.unwrap();
    application::connect(database.primary().unwrap(), uri).await.unwrap();
}
