//! Single requests about the objects of one kind, each seen by the next read of the informer at once.

use std::sync::Arc;

use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    core::Request,
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    error::{is_conflict, is_missing, is_not_found},
    informer::{Informer, Moment},
    kind::{Kind, ObjectKey, describe},
    write::WriteError,
};

/// What must still hold of an object for it to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletePrecondition {
    /// It is the incarnation that was seen (by UID). For objects that are ours whatever else is changed on them.
    Uid,
    /// It is the very version that was seen. For objects whose content says whether they are ours.
    ResourceVersion,
}

/// Reads and writes the objects of a kind: reads come from the informer, and what is written is in it at once.
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
    /// Reads from `informer`, writes through `client`.
    pub fn new(client: Client, informer: Informer<K>) -> Self {
        Self { client, informer }
    }

    /// What the informer knows of the kind.
    pub fn informer(&self) -> &Informer<K> {
        &self.informer
    }

    /// The object of a key, if the informer knows it.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.informer.store().get(key)
    }

    /// The object of a key as the API server has it now, if it is there.
    pub async fn read(&self, key: &ObjectKey) -> Result<Option<K>, WriteError> {
        let found = self.api(key).get_opt(key.name()).await;
        let mut found = found.map_err(|error| Self::failed("read", key, error))?;
        if let Some(object) = &mut found {
            object.meta_mut().managed_fields = None;
        }
        Ok(found)
    }

    /// Creates an object. What is sent may be of another type than what is read: a whole pod, for a view of it.
    pub async fn create<T: Serialize>(&self, key: &ObjectKey, object: &T) -> Result<(), WriteError> {
        let failed = |error| Self::failed("create", key, error);
        let body = serde_json::to_vec(object).map_err(|error| failed(kube::Error::SerdeError(error)))?;
        let request = Request::new(K::url_path(&(), key.namespace())).create(&PostParams::default(), body);
        let request = request.map_err(|error| failed(kube::Error::BuildRequest(error)))?;
        let moment = self.informer.store().now();
        let created = self.client.request::<K>(request).await;
        self.took(moment, created.map_err(failed)?);
        Ok(())
    }

    /// Replaces an object by one that carries the resource version that it was made from.
    pub async fn replace(&self, key: &ObjectKey, object: &K) -> Result<(), WriteError>
    where
        K: Serialize,
    {
        let moment = self.informer.store().now();
        let replaced = self.api(key).replace(key.name(), &PostParams::default(), object).await;
        let replaced = replaced.inspect_err(|error| {
            self.refused(moment, key, object.uid().as_deref(), error);
        });
        self.took(moment, replaced.map_err(|error| Self::failed("update", key, error))?);
        Ok(())
    }

    /// Changes parts of an object. The patch should carry the UID of the object that is meant. `action` is for
    /// the error: what was tried, `update` for example.
    pub async fn patch(
        &self,
        key: &ObjectKey,
        patch: &Patch<Value>,
        action: &'static str,
    ) -> Result<(), WriteError> {
        let moment = self.informer.store().now();
        let patched = self.api(key).patch(key.name(), &PatchParams::default(), patch).await;
        self.took(moment, patched.map_err(|error| Self::failed(action, key, error))?);
        Ok(())
    }

    /// Deletes an object, unless it is not what was seen any more. Says whether the API server took the
    /// request: an object that is gone, replaced or, with [`DeletePrecondition::ResourceVersion`], changed is left alone.
    pub async fn delete(&self, seen: &K, unless: DeletePrecondition) -> Result<bool, WriteError> {
        let key = ObjectKey::of(seen);
        let resource_version =
            seen.resource_version().filter(|_| unless == DeletePrecondition::ResourceVersion);
        let preconditions = Preconditions { uid: seen.uid(), resource_version };
        let moment = self.informer.store().now();
        let params = DeleteParams::background().preconditions(preconditions);
        match self.api(&key).delete(key.name(), &params).await {
            Ok(answer) => {
                answer
                    .map_left(|terminating| self.took(moment, terminating))
                    .map_right(|_gone| self.informer.removed(moment, &key, seen.uid().as_deref()));
                Ok(true)
            }
            Err(error) if is_not_found(&error) || is_conflict(&error) => {
                self.refused(moment, &key, seen.uid().as_deref(), &error);
                Ok(false)
            }
            Err(error) => Err(Self::failed("delete", &key, error)),
        }
    }

    /// Takes the incarnation that a request was about out of the informer if the answer says that it does not exist. A
    /// conflict does not say so: it may be about another version of the same incarnation.
    fn refused(&self, moment: Moment, key: &ObjectKey, uid: Option<&str>, error: &kube::Error) {
        if is_missing(error, key) {
            self.informer.removed(moment, key, uid);
        }
    }

    fn took(&self, moment: Moment, mut answer: K) {
        answer.meta_mut().managed_fields = None;
        self.informer.wrote(moment, answer);
    }

    fn api(&self, key: &ObjectKey) -> Api<K> {
        K::api(self.client.clone(), key.namespace())
    }

    fn failed(action: &'static str, key: &ObjectKey, source: kube::Error) -> WriteError {
        WriteError::Api { action, object: describe::<K>(key), source }
    }
}
