//! An S3 server for the archives of clusters: versitygw with a folder as its storage.

use std::{
    fs::{self, File},
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use postgres_archive::{Archive, Credentials, ObjectStoreSettings};
use postgres_model::{archive::Lineage, system_identifier::SystemIdentifier};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::kubelet::Kubelet;

/// Name of the bucket, which is a folder of the storage.
const BUCKET: &str = "backups";
const KEY_ID: &str = "test-key-id";
const KEY: &str = "test-secret-access-key";
/// Name of the Secret with the credentials.
const SECRET: &str = "store";
/// Time in which the server starts.
const START: Duration = Duration::from_mins(1);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// A server. It ends with this, and with the test.
pub struct ObjectStore {
    child: Option<Child>,
    address: SocketAddr,
    folder: TempDir,
}

impl ObjectStore {
    /// Starts a server.
    ///
    /// # Errors
    /// Returns an error if it does not start.
    pub async fn start() -> Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let folder = tempfile::Builder::new().prefix("versitygw-").tempdir()?;
        fs::create_dir_all(folder.path().join("storage").join(BUCKET))?;
        let mut store = Self { child: None, address, folder };
        store.resume().await?;
        Ok(store)
    }

    /// Starts the server again, with what it has stored.
    ///
    /// # Errors
    /// Returns an error if it does not start.
    pub async fn resume(&mut self) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.folder.path().join("log"))?;
        let child = Command::new("setpriv")
            .arg("--pdeathsig=KILL")
            .arg(go_tools::VERSITYGW.locate()?)
            .args(["--port", &self.address.to_string(), "--keep-alive", "posix"])
            .arg(self.folder.path().join("storage"))
            .env("ROOT_ACCESS_KEY_ID", KEY_ID)
            .env("ROOT_SECRET_ACCESS_KEY", KEY)
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start setpriv, of the package util-linux")?;
        self.child = Some(child);
        let end = Instant::now() + START;
        while TcpStream::connect(self.address).is_err() {
            ensure!(Instant::now() < end, "versitygw does not start");
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// Stops the server. Connections to it are refused.
    ///
    /// # Errors
    /// Returns an error if it cannot be killed.
    pub fn stop(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Returns `spec.backup` of a cluster that archives to the server.
    pub fn backup(&self) -> Value {
        let secret = |key: &str| json!({"name": SECRET, "key": key});
        json!({
            "objectStore": {
                "url": format!("s3://{BUCKET}/test"),
                "endpoint": format!("http://{}", self.address),
                "credentials": {"accessKeyID": secret("id"), "secretAccessKey": secret("key")},
            },
        })
    }

    /// Writes the Secret with the credentials. `key` replaces the right one.
    ///
    /// # Errors
    /// Returns an error if the API server refuses it.
    pub async fn create_secret(&self, kubelet: &Kubelet, key: Option<&str>) -> Result<()> {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET},
            "stringData": {"id": KEY_ID, "key": key.unwrap_or(KEY)},
        });
        let params = PatchParams::apply("test").force();
        kubelet.api::<Secret>().patch(SECRET, &params, &Patch::Apply(&secret)).await?;
        Ok(())
    }

    /// Returns the archive of a cluster.
    ///
    /// # Errors
    /// Returns an error if the UID is malformed.
    pub fn archive(&self, cluster: &str, uid: &str, system: SystemIdentifier) -> Result<Archive> {
        let mut settings =
            ObjectStoreSettings::new(format!("s3://{BUCKET}/test"), Credentials::new(KEY_ID, KEY));
        settings.endpoint = Some(format!("http://{}", self.address));
        let store = postgres_archive::ObjectStore::new(&settings)?;
        Ok(Archive::new(store, Lineage::new(None, cluster, uid)?, system))
    }

    /// Returns the folder in which the server stores what has keys with this prefix.
    pub fn folder(&self, prefix: &str) -> PathBuf {
        self.folder.path().join("storage").join(BUCKET).join("test").join(prefix)
    }
}

impl Drop for ObjectStore {
    fn drop(&mut self) {
        // It ends with the test otherwise.
        let _ = self.stop();
    }
}
