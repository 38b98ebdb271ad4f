//! Requests for single objects of one kind. The cache reflects each response immediately.

use std::sync::Arc;

use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    core::Request,
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    error::{WriteError, is_conflict, is_not_found, is_object_not_found},
    informer::{Epoch, Informer},
    kind::{Kind, ObjectKey, describe},
    protobuf,
};

/// Condition that an object must meet to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletePrecondition {
    /// The UID is unchanged. Use it for objects that are owned whatever else changes on them.
    Uid,
    /// The UID and the resource version are unchanged. Use it if the content of the object decides
    /// whether it is owned.
    ResourceVersion,
}

/// Reads and writes objects of one kind.
///
/// Reads come from the informer. The next read returns what was written.
pub struct Writer<K> {
    client: Client,
    informer: Informer<K>,
}

impl<K> Clone for Writer<K> {
    fn clone(&self) -> Self {
        Self { client: self.client.clone(), informer: self.informer.clone() }
    }
}

impl<K: Kind> Writer<K> {
    /// Returns a writer that reads from `informer` and writes with `client`.
    pub fn new(client: Client, informer: Informer<K>) -> Self {
        let client = protobuf::client_with(client, informer.format());
        Self { client, informer }
    }

    /// Returns the informer of the kind.
    pub fn informer(&self) -> &Informer<K> {
        &self.informer
    }

    /// Returns the object with this key from the cache.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.informer.store().get(key)
    }

    /// Reads the object with this key from the API server. Returns `None` if it does not exist.
    ///
    /// This is an uncached read, as with controller-runtime's `APIReader`.
    ///
    /// # Errors
    /// Returns [`WriteError::Api`] if the request fails.
    pub async fn read(&self, key: &ObjectKey) -> Result<Option<K>, WriteError> {
        let found = self.api(key).get_opt(key.name()).await;
        let mut found = found.map_err(|error| Self::failed("read", key, error))?;
        if let Some(object) = &mut found {
            object.meta_mut().managed_fields = None;
        }
        Ok(found)
    }

    /// Creates an object. The type of `object` can differ from `K`, such as a Pod for a
    /// [`PodView`](crate::pod::PodView).
    ///
    /// # Errors
    /// Returns [`WriteError::Api`] if the request fails.
    pub async fn create<T: Serialize>(&self, key: &ObjectKey, object: &T) -> Result<(), WriteError> {
        let failed = |error| Self::failed("create", key, error);
        let body = serde_json::to_vec(object).map_err(|error| failed(kube::Error::SerdeError(error)))?;
        let request = Request::new(K::url_path(&(), key.namespace())).create(&PostParams::default(), body);
        let request = request.map_err(|error| failed(kube::Error::BuildRequest(error)))?;
        let epoch = self.informer.store().epoch();
        let created = self.client.request::<K>(request).await;
        self.record(epoch, created.map_err(failed)?);
        Ok(())
    }

    /// Replaces an object. `object` must contain the resource version that it was derived from.
    ///
    /// # Errors
    /// Returns [`WriteError::Api`] if the request fails, also with a conflict.
    pub async fn replace(&self, key: &ObjectKey, object: &K) -> Result<(), WriteError>
    where
        K: Serialize,
    {
        let epoch = self.informer.store().epoch();
        let replaced = self.api(key).replace(key.name(), &PostParams::default(), object).await;
        let replaced = replaced.inspect_err(|error| {
            self.record_if_missing(epoch, key, object.uid().as_deref(), error);
        });
        self.record(epoch, replaced.map_err(|error| Self::failed("update", key, error))?);
        Ok(())
    }

    /// Patches an object. The patch should contain the UID of the object. `action` names the
    /// operation in the error, such as `update`.
    ///
    /// # Errors
    /// Returns [`WriteError::Api`] if the request fails.
    pub async fn patch(
        &self,
        key: &ObjectKey,
        patch: &Patch<Value>,
        action: &'static str,
    ) -> Result<(), WriteError> {
        let epoch = self.informer.store().epoch();
        let patched = self.api(key).patch(key.name(), &PatchParams::default(), patch).await;
        self.record(epoch, patched.map_err(|error| Self::failed(action, key, error))?);
        Ok(())
    }

    /// Deletes an object if it meets the precondition. Returns whether the API server accepted the
    /// request: `false` if the object no longer exists, was replaced, or, with
    /// [`DeletePrecondition::ResourceVersion`], changed.
    ///
    /// # Errors
    /// Returns [`WriteError::Api`] if the request fails for another reason.
    pub async fn delete(&self, seen: &K, precondition: DeletePrecondition) -> Result<bool, WriteError> {
        let key = ObjectKey::of(seen);
        let resource_version =
            seen.resource_version().filter(|_| precondition == DeletePrecondition::ResourceVersion);
        let preconditions = Preconditions { uid: seen.uid(), resource_version };
        let epoch = self.informer.store().epoch();
        let params = DeleteParams::background().preconditions(preconditions);
        match self.api(&key).delete(key.name(), &params).await {
            Ok(response) => {
                response
                    .map_left(|terminating| self.record(epoch, terminating))
                    .map_right(|_status| self.informer.record_delete(epoch, &key, seen.uid().as_deref()));
                Ok(true)
            }
            Err(error) if is_not_found(&error) || is_conflict(&error) => {
                self.record_if_missing(epoch, &key, seen.uid().as_deref(), &error);
                Ok(false)
            }
            Err(error) => Err(Self::failed("delete", &key, error)),
        }
    }

    /// Removes the object from the cache if the error says that it does not exist. A conflict does
    /// not say so: it can refer to another version of the same object.
    fn record_if_missing(&self, epoch: Epoch, key: &ObjectKey, uid: Option<&str>, error: &kube::Error) {
        if is_object_not_found(error, key) {
            self.informer.record_delete(epoch, key, uid);
        }
    }

    fn record(&self, epoch: Epoch, mut response: K) {
        response.meta_mut().managed_fields = None;
        self.informer.record_write(epoch, response);
    }

    fn api(&self, key: &ObjectKey) -> Api<K> {
        K::api(self.client.clone(), key.namespace())
    }

    fn failed(action: &'static str, key: &ObjectKey, source: kube::Error) -> WriteError {
        WriteError::Api { action, object: describe::<K>(key), source }
    }
}
