//! Writes each object once.

use bytes::Bytes;
use object_store::{Attribute, Attributes, ObjectStore as _, PutMode, PutOptions, PutPayload, path::Path};
use postgres_model::archive::ArchiveKey;

use super::{
    ObjectStore,
    error::{Failure, Operation, StoreError},
    refusal::Refusal,
    retry::AttemptError,
};
use crate::checksum::Checksum;

/// Name of the metadata that has the checksum of the content.
pub(super) const CHECKSUM: &str = "sha256";

/// Bytes to write, and the checksum of what they contain.
#[derive(Clone)]
pub(crate) struct Content {
    pub(crate) payload: PutPayload,
    /// Checksum of the content before it was compressed.
    pub(crate) checksum: Checksum,
}

impl Content {
    /// Returns a content that is stored as it is.
    pub(crate) fn plain(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self { checksum: Checksum::of(&bytes), payload: PutPayload::from_bytes(bytes) }
    }
}

/// Result of a PUT that succeeded: the object exists with the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Put {
    /// Whether this PUT created the object. False: it was already there with the same content, also if
    /// an earlier attempt of this PUT created it and its answer was lost.
    pub is_created: bool,
    /// Whether this PUT is the one that showed that the store does not support conditional requests.
    /// True at most once for a client, so that the caller can tell it once.
    pub is_now_unconditional: bool,
}

impl ObjectStore {
    /// Writes an object that does not exist, with the request header `If-None-Match: *`.
    ///
    /// The SHA-256 of `content`, which is stored as it is, becomes metadata of the object. If the
    /// object exists, its metadata decides: the same checksum is success, so a PUT can be repeated.
    ///
    /// A store that answers 501 to the condition, or 400 with the code `InvalidArgument`,
    /// `InvalidRequest`, or `NotImplemented`, or with which
    /// [`Archive::claim`](crate::Archive::claim) has shown that it ignores it, is asked for the object
    /// first. Between the two requests, another writer can create it.
    ///
    /// # Errors
    /// Returns [`StoreError::Conflict`] if the object exists with other content. It is never
    /// overwritten.
    pub async fn put_new(&self, key: &ArchiveKey, content: impl Into<Bytes>) -> Result<Put, StoreError> {
        self.put(&key.to_string(), &Content::plain(content)).await
    }

    pub(crate) async fn put(&self, key: &str, content: &Content) -> Result<Put, StoreError> {
        let path = self.path(Operation::Put, key)?;
        self.retry(Operation::Put, key, || self.put_once(key, &path, content)).await
    }

    async fn put_once(&self, key: &str, path: &Path, content: &Content) -> Result<Put, AttemptError> {
        if self.is_unconditional() {
            return self.put_after_look_up(key, path, content).await;
        }
        let Err(failure) = self.send(path, content, PutMode::Create).await else {
            return Ok(Put { is_created: true, is_now_unconditional: false });
        };
        if failure.refusal().is_some_and(Refusal::is_unknown_header) {
            let mut put = self.put_after_look_up(key, path, content).await?;
            // Only now is it known that the condition was what the store refused.
            put.is_now_unconditional = put.is_created && self.set_unconditional();
            return Ok(put);
        }
        if failure.refusal().is_some_and(Refusal::is_precondition) {
            return self.compare(key, path, content).await?.ok_or_else(|| failure.into_busy().into());
        }
        Err(failure.into())
    }

    /// Writes an object that does not exist, without a condition.
    async fn put_after_look_up(
        &self,
        key: &str,
        path: &Path,
        content: &Content,
    ) -> Result<Put, AttemptError> {
        if let Some(put) = self.compare(key, path, content).await? {
            return Ok(put);
        }
        self.send(path, content, PutMode::Overwrite).await?;
        Ok(Put { is_created: true, is_now_unconditional: false })
    }

    /// Compares an object with a content. Returns `None` if it does not exist.
    async fn compare(&self, key: &str, path: &Path, content: &Content) -> Result<Option<Put>, AttemptError> {
        match self.head(path).await? {
            None => Ok(None),
            Some(checksum) if checksum == Some(content.checksum) => {
                Ok(Some(Put { is_created: false, is_now_unconditional: false }))
            }
            Some(_) => Err(AttemptError::Final(StoreError::Conflict { key: key.to_owned() })),
        }
    }

    async fn send(&self, path: &Path, content: &Content, mode: PutMode) -> Result<(), Failure> {
        let checksum = (Attribute::Metadata(CHECKSUM.into()), content.checksum.to_string());
        let attributes = Attributes::from_iter([checksum]);
        let options = PutOptions { mode, attributes, ..PutOptions::default() };
        let answer = self.s3.put_opts(path, content.payload.clone(), options).await;
        answer.map(|_| ()).map_err(|error| Failure::of(&error))
    }

    /// Returns whether the store refuses to create an object that exists.
    ///
    /// `content` must be that of the object: a store that ignores the condition writes it once more.
    pub(crate) async fn is_conditional(&self, key: &str, content: &Content) -> Result<bool, StoreError> {
        let path = self.path(Operation::Put, key)?;
        self.retry(Operation::Put, key, || async {
            match self.send(&path, content, PutMode::Create).await {
                Ok(()) => Ok(false),
                Err(Failure::Refused(refusal)) if refusal.is_precondition() => Ok(true),
                Err(Failure::Refused(refusal)) if refusal.is_unknown_header() => Ok(false),
                Err(failure) => Err(AttemptError::from(failure)),
            }
        })
        .await
    }
}
