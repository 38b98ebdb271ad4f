//! The objects of one kind that Tenants keep in their namespaces.

use std::{collections::HashSet, sync::Arc};

use operator_core::{
    ObjectKey,
    informer::Index,
    kind::{Kind, is_deleting},
    owner::{Owner, controller_of},
    write::{Children, WriteError},
};
use serde::Serialize;
use tracing::info;

use crate::children::Child;

/// Reads and writes the objects of one kind.
pub(crate) struct ManagedObjects<K> {
    children: Children<K>,
    by_owner: Index<K, String>,
}

impl<K: Child + Kind + Serialize + PartialEq + Default> ManagedObjects<K> {
    pub(crate) fn new(children: Children<K>) -> Self {
        let by_owner = children.informer().store().index(|object: &K| {
            controller_of(object.meta()).map(|owner| owner.uid.clone()).into_iter().collect()
        });
        Self { children, by_owner }
    }

    /// The objects by the UID of their controller.
    pub(crate) fn by_owner(&self) -> Index<K, String> {
        self.by_owner.clone()
    }

    /// The object of a key, if it is there and the owner's.
    pub(crate) fn get(&self, key: &ObjectKey, owner: &Owner) -> Option<Arc<K>> {
        self.children.get(key).filter(|found| owner.owns(found.meta()))
    }

    /// Makes the object what it is to be. One that has to go first is waited for: the informer tells when it
    /// is gone. One of somebody else is taken over: its name is reserved.
    pub(crate) async fn make(&self, owner: &Owner, wanted: &K) -> Result<(), WriteError> {
        let key = ObjectKey::of(wanted);
        if let Some(found) = self.get(&key, owner) {
            if wanted.must_replace(&found) && !is_deleting(found.as_ref()) {
                self.children.delete(&found).await?;
            }
            if self.get(&key, owner).is_some_and(|found| is_deleting(found.as_ref())) {
                return Ok(());
            }
        }
        let settle = |found: &mut K| wanted.settle(found);
        match self.children.create_or_update(&key, owner, settle).await {
            Err(WriteError::NotOwned { object, holder }) => {
                info!(object, holder, "took over an object whose name is reserved");
                self.children.take_over(&key, owner, settle, |found| wanted.must_replace(found)).await
            }
            made => made,
        }
        .map(drop)
    }

    /// The objects whose controller has that UID and that are not wanted.
    pub(crate) fn surplus(&self, owner: &str, wanted: &HashSet<ObjectKey>) -> Vec<Arc<K>> {
        let mut surplus = self.by_owner.get(&owner.to_owned());
        surplus.retain(|object| {
            !is_deleting(object.as_ref()) && !wanted.contains(&ObjectKey::of(object.as_ref()))
        });
        surplus
    }

    /// Deletes an object.
    pub(crate) async fn delete(&self, object: &K) -> Result<(), WriteError> {
        self.children.delete(object).await
    }
}
