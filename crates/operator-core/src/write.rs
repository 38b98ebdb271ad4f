//! Writes of child objects: only if they changed, and only if they belong to the owner.

use std::{future::Future, sync::Arc};

use kube::Client;
use serde::Serialize;

pub use crate::error::WriteError;
use crate::{
    informer::Informer,
    kind::{Kind, ObjectKey, describe, is_deleting},
    owner::{Owner, describe_controller},
    writer::{DeletePrecondition, Writer},
};

/// Number of retries after a conflict.
const CONFLICT_RETRIES: u32 = 4;

/// Result of a create or update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationResult {
    /// The object did not exist.
    Created,
    /// The object existed and differed.
    Updated,
    /// The object existed and was equal, or was to be deleted and did not exist. Nothing was sent.
    Unchanged,
    /// The object was deleted.
    Deleted,
}

/// Runs `attempt`, and retries it up to four times while it returns a conflict (409).
///
/// The attempt must read the object again each time. `round` is 0 for the first attempt. There is
/// no delay between attempts: a conflict means that the write of another client succeeded.
///
/// # Errors
/// Returns the last conflict, or the first other error.
pub async fn retry_on_conflict<T, E, F>(
    mut attempt: impl FnMut(u32) -> F,
    is_conflict: impl Fn(&E) -> bool,
) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut round = 0;
    loop {
        match attempt(round).await {
            Err(error) if round < CONFLICT_RETRIES && is_conflict(&error) => round += 1,
            result => return result,
        }
    }
}

/// Reads and writes the children of a controller.
///
/// Reads come from the informer. The next read returns what was written.
pub struct Children<K> {
    writer: Writer<K>,
}

impl<K> Clone for Children<K> {
    fn clone(&self) -> Self {
        Self { writer: self.writer.clone() }
    }
}

impl<K: Kind + Serialize + PartialEq + Default> Children<K> {
    /// Returns children that are read from `informer` and written with `client`.
    pub fn new(client: Client, informer: Informer<K>) -> Self {
        Self { writer: Writer::new(client, informer) }
    }

    /// Returns the informer of the kind.
    pub fn informer(&self) -> &Informer<K> {
        self.writer.informer()
    }

    /// Returns the child with this key from the cache.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.writer.get(key)
    }

    /// Returns the child with this key from the cache, if `owner` owns it.
    pub fn owned(&self, key: &ObjectKey, owner: &Owner) -> Option<Arc<K>> {
        self.get(key).filter(|object| owner.owns(object.meta()))
    }

    /// Creates or updates an optional child of `owner` with `mutate`. Without `mutate`, deletes the
    /// object if `owner` owns it.
    ///
    /// # Errors
    /// See [`Children::create_or_update`].
    pub async fn reconcile(
        &self,
        key: &ObjectKey,
        owner: &Owner,
        mutate: Option<impl Fn(&mut K)>,
    ) -> Result<OperationResult, WriteError> {
        if let Some(mutate) = mutate {
            return self.create_or_update(key, owner, mutate).await;
        }
        let Some(surplus) = self.owned(key, owner).filter(|object| !is_deleting(object.as_ref())) else {
            return Ok(OperationResult::Unchanged);
        };
        self.delete(&surplus).await?;
        Ok(OperationResult::Deleted)
    }

    /// Creates or updates a child of `owner`.
    ///
    /// `mutate` receives the current object, or an empty one with the name and the owner, and sets
    /// the fields that the controller owns. Other fields stay. It can be called several times and
    /// must be deterministic. If the result equals the current object, nothing is sent.
    ///
    /// A stale cache is corrected: after a conflict, or if the object exists already, the object is
    /// read live and mutated again.
    ///
    /// # Errors
    /// Returns [`WriteError::NotOwned`] if the object exists and has another owner or none, and
    /// [`WriteError::Api`] if a request fails.
    pub async fn create_or_update(
        &self,
        key: &ObjectKey,
        owner: &Owner,
        mutate: impl Fn(&mut K),
    ) -> Result<OperationResult, WriteError> {
        let attempt = async |round: u32| {
            let current = match round {
                0 => self.get(key).map(|cached| (*cached).clone()),
                _ => self.writer.read(key).await?,
            };
            match current {
                Some(current) => self.update(key, owner, current, &mutate).await,
                None => self.create(key, owner, &mutate).await,
            }
        };
        retry_on_conflict(attempt, WriteError::is_stale_cache).await
    }

    /// Creates or updates an object whose name is reserved for `owner`.
    ///
    /// An object with another owner or none is taken over: the controller reference of `owner`
    /// replaces all its owner references. If `must_replace` returns true for it, it is deleted and
    /// recreated instead. Otherwise works like [`Children::create_or_update`].
    ///
    /// # Errors
    /// Returns [`WriteError::Api`] if a request fails.
    pub async fn take_over(
        &self,
        key: &ObjectKey,
        owner: &Owner,
        mutate: impl Fn(&mut K),
        must_replace: impl Fn(&K) -> bool,
    ) -> Result<OperationResult, WriteError> {
        let attempt = async |_| {
            let Some(found) = self.writer.read(key).await? else {
                return self.create(key, owner, &mutate).await;
            };
            if must_replace(&found) && !owner.owns(found.meta()) {
                self.writer.delete(&found, DeletePrecondition::ResourceVersion).await?;
                return self.create(key, owner, &mutate).await;
            }
            let mut wanted = found.clone();
            if !owner.owns(found.meta()) {
                wanted.meta_mut().owner_references = None;
                owner.set_on(wanted.meta_mut());
            }
            mutate(&mut wanted);
            if wanted == found {
                return Ok(OperationResult::Unchanged);
            }
            self.writer.replace(key, &wanted).await?;
            Ok(OperationResult::Updated)
        };
        retry_on_conflict(attempt, WriteError::is_stale_cache).await
    }

    /// Deletes a child by UID. Succeeds if it no longer exists or was replaced by another object
    /// with the same name.
    ///
    /// # Errors
    /// Returns [`WriteError::Api`] if the request fails.
    pub async fn delete(&self, object: &K) -> Result<(), WriteError> {
        self.writer.delete(object, DeletePrecondition::Uid).await.map(drop)
    }

    async fn create(
        &self,
        key: &ObjectKey,
        owner: &Owner,
        mutate: &impl Fn(&mut K),
    ) -> Result<OperationResult, WriteError> {
        let mut object = K::default();
        object.meta_mut().name = Some(key.name().to_owned());
        object.meta_mut().namespace = key.namespace().map(str::to_owned);
        owner.set_on(object.meta_mut());
        mutate(&mut object);
        self.writer.create(key, &object).await?;
        Ok(OperationResult::Created)
    }

    async fn update(
        &self,
        key: &ObjectKey,
        owner: &Owner,
        current: K,
        mutate: &impl Fn(&mut K),
    ) -> Result<OperationResult, WriteError> {
        if !owner.owns(current.meta()) {
            return Err(WriteError::NotOwned {
                object: describe::<K>(key),
                holder: describe_controller(current.meta()),
                is_garbage: owner.succeeds_owner_of(current.meta()),
            });
        }
        let mut wanted = current.clone();
        mutate(&mut wanted);
        if wanted == current {
            return Ok(OperationResult::Unchanged);
        }
        self.writer.replace(key, &wanted).await?;
        Ok(OperationResult::Updated)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn retries_only_conflicts_and_a_limited_number_of_times() {
        let calls = Cell::new(0);
        let conflict = async |_| {
            calls.set(calls.get() + 1);
            Err::<(), _>("conflict")
        };
        assert_eq!(retry_on_conflict(conflict, |error| *error == "conflict").await, Err("conflict"));
        assert_eq!(calls.get(), CONFLICT_RETRIES + 1);

        calls.set(0);
        let other = async |_| {
            calls.set(calls.get() + 1);
            Err::<(), _>("other")
        };
        assert_eq!(retry_on_conflict(other, |error| *error == "conflict").await, Err("other"));
        assert_eq!(calls.get(), 1);
    }
}
