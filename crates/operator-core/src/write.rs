//! Writing to the API server: only what changed, never what belongs to somebody else.

use std::{future::Future, sync::Arc};

use kube::Client;
use serde::Serialize;

use crate::{
    error::{is_already_exists, is_conflict, is_not_found},
    informer::Informer,
    kind::{Kind, ObjectKey, describe},
    owner::{Owner, held_by},
    writer::{DeletePrecondition, Writer},
};

/// How often a write is tried again after a conflict.
const CONFLICT_RETRIES: u32 = 4;

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The object was not there.
    Created,
    /// It was there and differed.
    Updated,
    /// It was as it should be; nothing was sent.
    Unchanged,
}

/// Why a write did not happen.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// An object of that name is there and belongs to somebody else. It was not touched.
    #[error(
        "{object} exists and is not ours (its controller: {holder}); delete or rename it, or choose another name"
    )]
    NotOurs {
        /// Kind and key of the object.
        object: String,
        /// Who holds it.
        holder: String,
    },
    /// The API server refused or did not answer.
    #[error("cannot {action} {object}")]
    Api {
        /// What was tried, `create` for example.
        action: &'static str,
        /// Kind and key of the object.
        object: String,
        /// The API server's answer.
        source: kube::Error,
    },
}

impl WriteError {
    /// Whether the answer says that the object is not as the cache has it: changed, there already, or gone.
    pub fn shows_stale_cache(&self) -> bool {
        match self {
            Self::Api { action: "create", source, .. } => is_already_exists(source),
            Self::Api { source, .. } => is_conflict(source) || is_not_found(source),
            Self::NotOurs { .. } => false,
        }
    }

    /// The API server's answer, if there was one.
    pub fn answer(&self) -> Option<&kube::Error> {
        match self {
            Self::Api { source, .. } => Some(source),
            Self::NotOurs { .. } => None,
        }
    }
}

/// Runs `attempt` again while it ends in a conflict (409), a few times. The attempt must read the object anew
/// each time; `round` is 0 for the first. Other errors, and the last conflict, are returned.
///
/// Conflicts need no waiting: somebody else's write went through.
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

/// The objects of one kind that a controller makes, as it reads and writes them.
///
/// Reads come from the informer; what is written is seen by the next read at once.
pub struct Children<K> {
    writer: Writer<K>,
}

impl<K> Clone for Children<K> {
    fn clone(&self) -> Self {
        Self { writer: self.writer.clone() }
    }
}

impl<K: Kind + Serialize + PartialEq + Default> Children<K> {
    /// Children that are read from `informer` and written through `client`.
    pub fn new(client: Client, informer: Informer<K>) -> Self {
        Self { writer: Writer::new(client, informer) }
    }

    /// What the informer knows of the kind.
    pub fn informer(&self) -> &Informer<K> {
        self.writer.informer()
    }

    /// The child of a key, if the informer knows it.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.writer.get(key)
    }

    /// Makes the object what `mutate` says, and `owner`'s.
    ///
    /// `mutate` gets the present object, or an empty one with its name, and changes the fields it means;
    /// whatever else is there stays. It may be called several times and must always ask for the same. If the
    /// result equals what is there, nothing is sent. A stale cache is made good: on a conflict, and when the
    /// object turns out to exist, it is read live and mutated again.
    ///
    /// # Errors
    /// [`WriteError::NotOurs`] if the object exists and has another owner or none.
    pub async fn create_or_update(
        &self,
        key: &ObjectKey,
        owner: &Owner,
        mutate: impl Fn(&mut K),
    ) -> Result<Written, WriteError> {
        let attempt = async |round: u32| {
            let known = match round {
                0 => self.get(key).map(|known| (*known).clone()),
                _ => self.writer.read(key).await?,
            };
            match known {
                Some(known) => self.update(key, owner, known, &mutate).await,
                None => self.create(key, owner, &mutate).await,
            }
        };
        retry_on_conflict(attempt, WriteError::shows_stale_cache).await
    }

    /// As [`Children::create_or_update`], of an object whose name is reserved for `owner`: one that belongs to somebody else
    /// or to nobody becomes the owner's, whose controller reference takes the place of all owner references. One for which
    /// `must_replace` says so is deleted and made anew.
    ///
    /// # Errors
    /// When the API server refuses or does not answer.
    pub async fn take_over(
        &self,
        key: &ObjectKey,
        owner: &Owner,
        mutate: impl Fn(&mut K),
        must_replace: impl Fn(&K) -> bool,
    ) -> Result<Written, WriteError> {
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
                owner.stamp(wanted.meta_mut());
            }
            mutate(&mut wanted);
            if wanted == found {
                return Ok(Written::Unchanged);
            }
            self.writer.replace(key, &wanted).await?;
            Ok(Written::Updated)
        };
        retry_on_conflict(attempt, WriteError::shows_stale_cache).await
    }

    /// Deletes an object that the informer knows: this very incarnation, not a namesake. Gone already is
    /// success.
    pub async fn delete(&self, object: &K) -> Result<(), WriteError> {
        self.writer.delete(object, DeletePrecondition::Uid).await.map(drop)
    }

    async fn create(
        &self,
        key: &ObjectKey,
        owner: &Owner,
        mutate: &impl Fn(&mut K),
    ) -> Result<Written, WriteError> {
        let mut object = K::default();
        object.meta_mut().name = Some(key.name().to_owned());
        object.meta_mut().namespace = key.namespace().map(str::to_owned);
        owner.stamp(object.meta_mut());
        mutate(&mut object);
        self.writer.create(key, &object).await?;
        Ok(Written::Created)
    }

    async fn update(
        &self,
        key: &ObjectKey,
        owner: &Owner,
        known: K,
        mutate: &impl Fn(&mut K),
    ) -> Result<Written, WriteError> {
        if !owner.owns(known.meta()) {
            return Err(WriteError::NotOurs { object: describe::<K>(key), holder: held_by(known.meta()) });
        }
        let mut wanted = known.clone();
        mutate(&mut wanted);
        if wanted == known {
            return Ok(Written::Unchanged);
        }
        self.writer.replace(key, &wanted).await?;
        Ok(Written::Updated)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn only_conflicts_are_tried_again_and_not_for_ever() {
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
