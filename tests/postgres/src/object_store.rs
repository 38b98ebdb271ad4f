//! An S3 server for the archives of clusters: versitygw with a folder as its storage.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    net::{SocketAddr, TcpStream},
    os::unix::fs::MetadataExt,
    path::PathBuf,
    process::{Child, Command},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use cluster::reserve_address;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use postgres_archive::{Archive, Credentials, ObjectStoreSettings};
use postgres_model::{archive::Lineage, system_identifier::SystemIdentifier};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::{kubelet::Kubelet, volume::Volume};

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
    is_read_only: bool,
    /// The file system of the objects, if it has a size of its own. Unmounted before the folder is deleted.
    volume: Option<Volume>,
    folder: Arc<TempDir>,
}

/// What changes when an object is written: its inode, its size, and when it was changed.
pub type Written = (u64, u64, i64, i64);

impl ObjectStore {
    /// Starts a server.
    ///
    /// # Errors
    /// Returns an error if it does not start.
    pub async fn start() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("versitygw-").tempdir()?;
        fs::create_dir_all(folder.path().join("storage").join(BUCKET))?;
        Self::serve(Arc::new(folder), false).await
    }

    /// Starts a server with space for this number of mebibytes.
    ///
    /// # Errors
    /// Returns an error if it does not start, or if nothing can be mounted.
    pub async fn with_space(mebibytes: u64) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("versitygw-").tempdir()?;
        let storage = folder.path().join("storage");
        fs::create_dir(&storage)?;
        let volume = Volume::mount(&storage, mebibytes)?;
        fs::create_dir(storage.join(BUCKET))?;
        let mut store = Self::serve(Arc::new(folder), false).await?;
        store.volume = Some(volume);
        Ok(store)
    }

    /// Gives the server space for this number of mebibytes.
    ///
    /// # Errors
    /// Returns an error if it needs more, or has no space of its own.
    pub fn resize(&self, mebibytes: u64) -> Result<()> {
        self.volume.as_ref().context("the server has no space of its own")?.resize(mebibytes)
    }

    /// Creates a bucket.
    ///
    /// # Errors
    /// Returns the error of the file system.
    pub fn create_bucket(&self, name: &str) -> Result<()> {
        Ok(fs::create_dir(self.folder.path().join("storage").join(name))?)
    }

    /// Starts another server for the same objects, which refuses all writes.
    ///
    /// # Errors
    /// Returns an error if it does not start.
    pub async fn read_only(&self) -> Result<Self> {
        Self::serve(self.folder.clone(), true).await
    }

    async fn serve(folder: Arc<TempDir>, is_read_only: bool) -> Result<Self> {
        let address = reserve_address()?;
        let mut store = Self { child: None, address, is_read_only, volume: None, folder };
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
            .args(["--port", &self.address.to_string(), "--keep-alive"])
            .args(self.is_read_only.then_some("--readonly"))
            .arg("posix")
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

    /// Returns all objects below a prefix, with what changes when one is written.
    ///
    /// # Errors
    /// Returns the error of the file system.
    pub fn objects(&self, prefix: &str) -> Result<BTreeMap<PathBuf, Written>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.folder(prefix)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
                let entry = entry?;
                let metadata = entry.metadata()?;
                if metadata.is_dir() {
                    folders.push(entry.path());
                } else {
                    let written = (metadata.ino(), metadata.len(), metadata.ctime(), metadata.ctime_nsec());
                    found.insert(entry.path(), written);
                }
            }
        }
        Ok(found)
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
