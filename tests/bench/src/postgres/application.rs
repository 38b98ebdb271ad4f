//! How an application connects: with the Secret of its cluster, but to the address of a member.

use std::{net::IpAddr, time::Duration};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Secret;
use postgres_processes::Kubelet;
use tokio::time::timeout;
use tokio_postgres::{Client, NoTls};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(2);
/// Name of the Secret.
const SECRET: &str = "db-app";

/// Role and database of the application.
pub(crate) struct Application {
    /// Name of the role.
    pub(crate) user: String,
    /// Its password.
    pub(crate) password: String,
    /// Name of the database.
    pub(crate) database: String,
}

impl Application {
    /// Reads the Secret of a cluster.
    pub(crate) async fn of(kubelet: &Kubelet) -> Result<Self> {
        let data = kubelet.api::<Secret>().get(SECRET).await?.data.unwrap_or_default();
        let text = |key: &str| -> Result<String> {
            let value = data.get(key).with_context(|| format!("the Secret {SECRET} has no {key}"))?;
            Ok(String::from_utf8(value.0.clone())?)
        };
        Ok(Self { user: text("username")?, password: text("password")?, database: text("dbname")? })
    }

    /// Connects to a member.
    ///
    /// # Errors
    /// Returns an error if the member does not accept the connection in time.
    pub(crate) async fn connect(&self, address: IpAddr) -> Result<Client> {
        let mut config = tokio_postgres::Config::new();
        config.host(address.to_string()).user(&self.user).password(&self.password).dbname(&self.database);
        let (client, connection) = timeout(CONNECT, config.connect(NoTls)).await??;
        tokio::spawn(connection);
        Ok(client)
    }
}
