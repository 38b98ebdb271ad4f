//! How an application connects: by the Secret of its cluster.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use postgres_processes::{Database, Kubelet, Member};
use serde_json::json;
use tokio::time::timeout;
use tokio_postgres::{Client, NoTls, error::SqlState};

use crate::support::TestEnv;

/// Reads the Secret of the application.
pub(crate) async fn secret(kubelet: &Kubelet) -> Result<BTreeMap<String, String>> {
    read_secret(kubelet, "db-app").await
}

/// Reads a Secret whose values are text.
pub(crate) async fn read_secret(kubelet: &Kubelet, name: &str) -> Result<BTreeMap<String, String>> {
    let secret = kubelet.api::<Secret>().get(name).await?;
    let text = |(key, value): (String, ByteString)| Ok((key, String::from_utf8(value.0)?));
    secret.data.unwrap_or_default().into_iter().map(text).collect()
}

/// Connects as the URI of the Secret says, at the address of a member.
pub(crate) async fn connect(member: &Member, uri: &str) -> Result<Client> {
    let mut config: tokio_postgres::Config = uri.parse()?;
    let (host, address) = (config.get_hosts().len(), member.address);
    anyhow::ensure!(host == 1, "{uri} has {host} hosts");
    config.hostaddr(address);
    let (client, connection) = timeout(Duration::from_secs(5), config.connect(NoTls)).await??;
    tokio::spawn(connection);
    Ok(client)
}

#[tokio::test]
async fn application_owns_its_database_on_every_primary() {
    // With two members, the loss of the primary can lose the last rows.
    let mut database = Database::new(3).await.unwrap();
    database.until_complete().await.unwrap();
    let uri = secret(&database.kubelet).await.unwrap().remove("uri").unwrap();
    assert!(uri.contains("@db-rw."), "{uri}");
    // A ready primary has the database: nothing waits here.
    let client = connect(database.primary().unwrap(), &uri).await.unwrap();
    client.batch_execute("CREATE TABLE orders (number bigint); INSERT INTO orders VALUES (7)").await.unwrap();
    let owner = "SELECT rolname, rolsuper FROM pg_database JOIN pg_roles ON datdba = pg_roles.oid \
                 WHERE datname = 'app'";
    let row = client.query_one(owner, &[]).await.unwrap();
    assert_eq!((row.get::<_, &str>(0), row.get::<_, bool>(1)), ("app", false));
    drop(client);
    database.primary().unwrap().kill().unwrap();
    database.until_failed_over().await.unwrap();
    let client = connect(database.primary().unwrap(), &uri).await.unwrap();
    let row = client.query_one("SELECT number FROM orders", &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 7);
}

#[tokio::test]
async fn changed_password_is_set_in_the_database() {
    let mut database = Database::new(1).await.unwrap();
    database.until_complete().await.unwrap();
    let old = secret(&database.kubelet).await.unwrap().remove("uri").unwrap();
    let patch = Patch::Merge(json!({"stringData": {"password": "p@ss:wörd"}}));
    let api = database.kubelet.api::<Secret>();
    api.patch("db-app", &PatchParams::default(), &patch).await.unwrap();
    database.kubelet.remount().await.unwrap();
    let new = "postgresql://app:p%40ss%3Aw%C3%B6rd@db-rw:5432/app";
    let check = async |members: &[Member]| {
        let member = members.first().context("there is no member")?;
        Ok(connect(member, new).await.map(drop))
    };
    database.kubelet.until("the new password", check).await.unwrap();
    let error = connect(database.primary().unwrap(), &old).await.unwrap_err();
    let error = error.downcast_ref::<tokio_postgres::Error>().and_then(tokio_postgres::Error::code);
    assert_eq!(error, Some(&SqlState::INVALID_PASSWORD));
    assert!(!database.kubelet.logs().contains("p@ss"), "the password is in a log");
}

#[tokio::test]
async fn names_of_the_spec_are_used() {
    let mut env = TestEnv::new().await;
    let initdb = json!({"database": "select", "owner": "table"});
    env.create("db", json!({"size": 1, "bootstrap": {"initdb": initdb}})).await;
    env.until_ready("db", 1).await;
    let secret = secret(&env).await.unwrap();
    assert_eq!((secret["username"].as_str(), secret["dbname"].as_str()), ("table", "select"));
    let client = connect(&env.members[0], &secret["uri"]).await.unwrap();
    let row = client.query_one("SELECT current_database()::text, current_user::text", &[]).await.unwrap();
    assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1)), ("select", "table"));
}

#[tokio::test]
async fn foreign_secret_is_reported_and_left_alone() {
    let mut env = TestEnv::new().await;
    let metadata = ObjectMeta { name: Some("db-app".into()), ..ObjectMeta::default() };
    let data = [("password".to_owned(), ByteString(b"theirs".to_vec()))].into();
    let foreign = Secret { metadata, data: Some(data), ..Secret::default() };
    env.api::<Secret>().create(&PostParams::default(), &foreign).await.unwrap();
    env.create("db", json!({"size": 1})).await;
    let message = env.until_condition("db", "Ready", ("False", "NameConflict")).await;
    assert!(message.contains("db-app"), "{message}");
    assert_eq!(secret(&env).await.unwrap(), [("password".to_owned(), "theirs".to_owned())].into());
}
