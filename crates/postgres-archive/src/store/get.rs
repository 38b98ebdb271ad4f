//! Reads objects and their metadata.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use object_store::{Attribute, Attributes, GetOptions, GetResult, ObjectStore as _, path::Path};

use super::{
    ObjectStore,
    error::{Failure, Operation, StoreError},
    put::CHECKSUM,
    retry::AttemptError,
};
use crate::checksum::Checksum;

/// Most memory that is reserved before the bytes arrive.
const MAX_RESERVED: u64 = 64 << 20;

/// Object whose content is read piece by piece.
pub(crate) struct Object {
    /// Bytes in the store.
    pub(crate) size: u64,
    /// Checksum of the content before it was compressed. `None`: another program wrote the object.
    pub(crate) checksum: Option<Checksum>,
    pub(crate) pieces: BoxStream<'static, Result<Bytes, Failure>>,
}

/// Object that was read at once.
pub(crate) struct Small {
    pub(crate) bytes: Vec<u8>,
    /// Checksum of the content before it was compressed. `None`: another program wrote the object.
    pub(crate) checksum: Option<Checksum>,
}

impl ObjectStore {
    /// Begins to read an object, in one attempt. Returns `None` if it does not exist.
    pub(crate) async fn open(&self, key: &str) -> Result<Option<Object>, AttemptError> {
        let path = self.path(Operation::Get, key).map_err(AttemptError::Final)?;
        let Some(found) = self.get(&path, GetOptions::default()).await? else { return Ok(None) };
        let (size, checksum) = (found.meta.size, checksum(&found.attributes));
        let pieces = found.into_stream().map_err(|error| Failure::of(&error)).boxed();
        Ok(Some(Object { size, checksum, pieces }))
    }

    /// Reads an object of at most `limit` bytes. Returns `None` if it does not exist.
    pub(crate) async fn read(&self, key: &str, limit: u64) -> Result<Option<Small>, StoreError> {
        self.retry(Operation::Get, key, || async {
            let Some(mut object) = self.open(key).await? else { return Ok(None) };
            let too_large = || {
                let key = key.to_owned();
                AttemptError::Final(StoreError::TooLarge {
                    operation: Operation::Get,
                    key,
                    limit,
                    unit: "bytes",
                })
            };
            if object.size > limit {
                return Err(too_large());
            }
            // The length is that of the answer, which nobody has verified.
            let mut bytes =
                Vec::with_capacity(usize::try_from(object.size.min(MAX_RESERVED)).unwrap_or_default());
            while let Some(piece) = object.pieces.try_next().await? {
                bytes.extend_from_slice(&piece);
                if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
                    return Err(too_large());
                }
            }
            Ok(Some(Small { bytes, checksum: object.checksum }))
        })
        .await
    }

    /// Returns whether an object exists.
    pub(crate) async fn exists(&self, key: &str) -> Result<bool, StoreError> {
        let path = self.path(Operation::Head, key)?;
        self.retry(Operation::Head, key, || async { Ok(self.head(&path).await?.is_some()) }).await
    }

    /// Reads the checksum of an object, in one attempt. Returns `None` if the object does not exist.
    pub(super) async fn head(&self, path: &Path) -> Result<Option<Option<Checksum>>, Failure> {
        let options = GetOptions { head: true, ..GetOptions::default() };
        Ok(self.get(path, options).await?.map(|found| checksum(&found.attributes)))
    }

    async fn get(&self, path: &Path, options: GetOptions) -> Result<Option<GetResult>, Failure> {
        let is_head = options.head;
        match self.s3.get_opts(path, options).await.map_err(|error| Failure::of(&error)) {
            Err(Failure::Refused(refusal)) if refusal.is_missing_object(is_head) => Ok(None),
            result => result.map(Some),
        }
    }
}

fn checksum(attributes: &Attributes) -> Option<Checksum> {
    attributes.get(&Attribute::Metadata(CHECKSUM.into()))?.as_ref().parse().ok()
}
