//! Objects in an object store: each is written once, and read, listed, and deleted with limits.

mod body;
mod connector;
mod error;
mod get;
mod list;
mod put;
mod refusal;
mod retry;
mod tls;
mod transport;

use std::{
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use object_store::{
    ObjectStoreExt, RetryConfig,
    aws::{AmazonS3, AmazonS3Builder},
    path::Path,
};

use self::{connector::Connector, retry::retry};
pub(crate) use self::{error::Failure, get::Object, list::Entry, put::Content, retry::AttemptError};
pub use self::{
    error::{Operation, StoreError},
    put::Put,
    refusal::Refusal,
};
use crate::settings::{Location, ObjectStoreSettings, SettingsError};

/// Client of an object store. Clones share connections.
///
/// Each operation is repeated with growing waits until the deadline of the settings. Keys are below
/// the URL of the settings.
#[derive(Clone)]
pub struct ObjectStore {
    s3: AmazonS3,
    prefix: Arc<str>,
    deadline: Duration,
    /// Whether a PUT has shown that the store ignores or refuses its condition.
    is_unconditional: Arc<AtomicBool>,
}

impl ObjectStore {
    /// Returns a client. Sends nothing.
    ///
    /// # Errors
    /// Returns the first invalid setting.
    pub fn new(settings: &ObjectStoreSettings) -> Result<Self, SettingsError> {
        let location = settings.validate()?;
        let s3 = builder(settings, &location).with_http_connector(Connector::new(settings)?).build();
        // All values are valid, so this does not happen.
        let s3 = s3.map_err(|error| SettingsError::Endpoint(error.to_string()))?;
        let prefix = location.prefix.into();
        Ok(Self { s3, prefix, deadline: settings.deadline, is_unconditional: Arc::default() })
    }

    /// Returns whether the store has shown that it does not support conditional requests. Objects are
    /// then looked up before they are written, and two writers at the same moment can both succeed.
    pub fn is_unconditional(&self) -> bool {
        self.is_unconditional.load(Ordering::Relaxed)
    }

    /// Notes that the store does not support conditional requests. Returns whether that is new.
    pub(crate) fn set_unconditional(&self) -> bool {
        !self.is_unconditional.swap(true, Ordering::Relaxed)
    }

    /// Deletes an object. One that does not exist is no error.
    pub(crate) async fn delete(&self, key: &str) -> Result<(), StoreError> {
        let path = self.path(Operation::Delete, key)?;
        self.retry(Operation::Delete, key, || async {
            match self.s3.delete(&path).await.map_err(|error| Failure::of(&error)) {
                Err(Failure::Refused(refusal)) if refusal.is_missing_object(false) => Ok(()),
                result => result.map_err(AttemptError::from),
            }
        })
        .await
    }

    /// Repeats attempts until the deadline of the settings.
    pub(crate) async fn retry<T, E, F>(
        &self,
        operation: Operation,
        key: &str,
        attempt: impl FnMut() -> F,
    ) -> Result<T, E>
    where
        E: From<StoreError>,
        F: Future<Output = Result<T, AttemptError<E>>>,
    {
        retry(operation, key, self.deadline, attempt).await
    }

    /// Returns the key in the bucket.
    fn full_key(&self, key: &str) -> String {
        if self.prefix.is_empty() { key.to_owned() } else { format!("{}/{key}", self.prefix) }
    }

    fn path(&self, operation: Operation, key: &str) -> Result<Path, StoreError> {
        Path::parse(self.full_key(key)).map_err(|error| StoreError::Malformed {
            operation,
            key: key.to_owned(),
            cause: error.to_string(),
        })
    }
}

fn builder(settings: &ObjectStoreSettings, location: &Location) -> AmazonS3Builder {
    let credentials = &settings.credentials;
    let builder = AmazonS3Builder::new()
        .with_bucket_name(&location.bucket)
        .with_region(settings.region())
        .with_endpoint(&location.bucket_url)
        // The endpoint names the bucket already, in the path or in the host.
        .with_virtual_hosted_style_request(true)
        .with_access_key_id(&credentials.access_key_id)
        .with_secret_access_key(&credentials.secret_access_key)
        // The bulk request is not known to every server.
        .with_disable_bulk_delete(true)
        .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() });
    match &credentials.session_token {
        Some(token) => builder.with_token(token),
        None => builder,
    }
}

impl fmt::Debug for ObjectStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectStore").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
