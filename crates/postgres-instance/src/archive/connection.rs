//! The connection to the object store, which follows the settings and the mounted Secrets.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use postgres_archive::{Archive, Credentials, ObjectStore, ObjectStoreSettings};
use postgres_model::{
    archive::{Lineage, LineageError},
    report::ArchiveFailure,
    system_identifier::SystemIdentifier,
};
use tokio::sync::Mutex;
use tracing::{info, warn};

use super::{
    context::Context,
    failure::{self, failure},
    settings::{SecretKey, StoreSettings},
};

/// Names of the mounted files. The controller has the same.
const ACCESS_KEY_ID: &str = "access-key-id";
const SECRET_ACCESS_KEY: &str = "secret-access-key";
const CA_BUNDLE: &str = "ca.crt";
/// Longest part of the credentials, and longest bundle of certificates.
const MAX_CREDENTIAL: u64 = 4 << 10;
const MAX_CA_BUNDLE: u64 = 1 << 20;
/// Longest time of a request, and of all attempts for a file of WAL.
const WAL: Limits = Limits { request: Duration::from_secs(30), deadline: Duration::from_secs(30) };
/// The same for a part of a base backup, and for a listing.
const BACKUP: Limits = Limits { request: Duration::from_mins(2), deadline: Duration::from_mins(5) };

/// Longest times of requests.
#[derive(Clone, Copy)]
struct Limits {
    request: Duration,
    deadline: Duration,
}

/// Connects to the object store.
pub(super) struct Connection {
    /// Folder with the mounted Secrets.
    folder: PathBuf,
    current: Mutex<Option<Current>>,
}

/// The present connection.
struct Current {
    key: Key,
    archive: Archive,
    is_claimed: bool,
}

/// What a connection is made from.
#[derive(Clone, PartialEq, Eq)]
struct Key {
    lineage: Lineage,
    store: StoreSettings,
    credentials: Credentials,
    ca_bundle: Option<String>,
    system: SystemIdentifier,
}

impl Connection {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, current: Mutex::new(None) }
    }

    /// Returns the archive, to read from it.
    ///
    /// # Errors
    /// Returns an error if the settings or the mounted Secrets cannot be used.
    pub(super) async fn reader(&self, context: &Context) -> Result<Archive, ArchiveFailure> {
        let mut current = self.current.lock().await;
        Ok(self.connect(&mut current, context)?.archive.clone())
    }

    /// Returns the archive, to write to it: it is claimed for the cluster.
    ///
    /// # Errors
    /// Returns an error if the settings or the mounted Secrets cannot be used, the store does not
    /// answer, or the place belongs to another cluster.
    pub(super) async fn writer(&self, context: &Context) -> Result<Archive, ArchiveFailure> {
        let mut current = self.current.lock().await;
        let current = self.connect(&mut current, context)?;
        if !current.is_claimed {
            let claim = current.archive.claim(&context.cluster_uid, &context.cluster).await;
            let claim = claim.map_err(|error| failure::of(&error))?;
            current.is_claimed = true;
            info!(is_new = claim.is_created, "the archive belongs to the cluster");
            if !claim.is_conditional {
                warn!(
                    "the object store does not refuse to overwrite objects; each is looked up before it is written"
                );
            }
        }
        Ok(current.archive.clone())
    }

    /// Returns the archive like [`writer`](Self::writer), with more time for each request: for base
    /// backups and retention.
    ///
    /// # Errors
    /// Returns the errors of [`writer`](Self::writer).
    pub(super) async fn backup_writer(&self, context: &Context) -> Result<Archive, ArchiveFailure> {
        self.writer(context).await?;
        archive(&self.key(context)?, BACKUP)
    }

    /// Returns the archive of another cluster, to read WAL from it.
    ///
    /// # Errors
    /// Returns an error if the settings or the mounted Secrets cannot be used.
    pub(super) async fn source(
        &self,
        store: &StoreSettings,
        system: SystemIdentifier,
    ) -> Result<Archive, ArchiveFailure> {
        let mut current = self.current.lock().await;
        Ok(connect(&mut current, self.source_key(store, system)?)?.archive.clone())
    }

    /// Returns the archive of another cluster like [`source`](Self::source), with more time for each
    /// request: for base backups and listings.
    ///
    /// # Errors
    /// Returns the errors of [`source`](Self::source).
    pub(super) fn source_backups(
        &self,
        store: &StoreSettings,
        system: SystemIdentifier,
    ) -> Result<Archive, ArchiveFailure> {
        archive(&self.source_key(store, system)?, BACKUP)
    }

    fn source_key(&self, store: &StoreSettings, system: SystemIdentifier) -> Result<Key, ArchiveFailure> {
        let name = store.server_name.as_deref().unwrap_or_default();
        let lineage = name.parse().map_err(|error: LineageError| failure(error.to_string()))?;
        self.key_of(store, lineage, system)
    }

    /// Connects again if anything has changed.
    fn connect<'a>(
        &self,
        current: &'a mut Option<Current>,
        context: &Context,
    ) -> Result<&'a mut Current, ArchiveFailure> {
        connect(current, self.key(context)?)
    }

    fn key(&self, context: &Context) -> Result<Key, ArchiveFailure> {
        let settings = context.settings.clone().ok_or_else(|| failure("spec.backup is not set"))?;
        let system = context.system.ok_or_else(|| failure("the database does not exist yet"))?;
        let store = &settings.object_store;
        let lineage = Lineage::new(store.server_name.as_deref(), &context.cluster, &context.cluster_uid);
        let lineage = lineage.map_err(|error| failure(error.to_string()))?;
        self.key_of(store, lineage, system)
    }

    fn key_of(
        &self,
        store: &StoreSettings,
        lineage: Lineage,
        system: SystemIdentifier,
    ) -> Result<Key, ArchiveFailure> {
        let credentials = self.credentials(store)?;
        let bundle = store.ca_secret.as_ref();
        let ca_bundle = bundle.map(|secret| self.read(CA_BUNDLE, secret, MAX_CA_BUNDLE)).transpose()?;
        Ok(Key { lineage, store: store.clone(), credentials, ca_bundle, system })
    }

    fn credentials(&self, store: &StoreSettings) -> Result<Credentials, ArchiveFailure> {
        let secrets = &store.credentials;
        let id = self.read(ACCESS_KEY_ID, &secrets.access_key_id, MAX_CREDENTIAL)?;
        let key = self.read(SECRET_ACCESS_KEY, &secrets.secret_access_key, MAX_CREDENTIAL)?;
        Ok(Credentials::new(id, key))
    }

    /// Reads a mounted file. The content is never part of an error.
    fn read(&self, file: &str, secret: &SecretKey, most: u64) -> Result<String, ArchiveFailure> {
        let SecretKey { name, key } = secret;
        read(&self.folder.join(file), most).map_err(|error| {
            let reason = match error.kind() {
                io::ErrorKind::NotFound => "it is not mounted; create the Secret with this key".to_owned(),
                _ => error.to_string(),
            };
            failure(format!("cannot read the key {key} of the Secret {name} for the object store: {reason}"))
        })
    }
}

fn read(path: &Path, most: u64) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(most + 1).read_to_string(&mut text)?;
    let is_short = u64::try_from(read).is_ok_and(|read| read <= most);
    if is_short { Ok(text) } else { Err(io::Error::other(format!("it has more than {most} bytes"))) }
}

/// Connects again if anything has changed.
fn connect(current: &mut Option<Current>, key: Key) -> Result<&mut Current, ArchiveFailure> {
    let kept = current.take().filter(|current| current.key == key);
    let connected = match kept {
        Some(kept) => kept,
        None => Current { archive: archive(&key, WAL)?, key, is_claimed: false },
    };
    Ok(current.insert(connected))
}

fn archive(key: &Key, limits: Limits) -> Result<Archive, ArchiveFailure> {
    let store = &key.store;
    let mut settings = ObjectStoreSettings::new(store.url.clone(), key.credentials.clone());
    settings.endpoint.clone_from(&store.endpoint);
    settings.region.clone_from(&store.region);
    settings.ca_bundle.clone_from(&key.ca_bundle);
    (settings.request_timeout, settings.deadline) = (limits.request, limits.deadline);
    let store = ObjectStore::new(&settings).map_err(|error| failure(error.to_string()))?;
    Ok(Archive::new(store, key.lineage.clone(), key.system))
}
