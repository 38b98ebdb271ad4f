//! Objects of one kind that Tenants manage in their namespaces.

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

/// Reads and writes the managed objects of one kind.
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

    /// Returns the index of objects by the UID of their controller.
    pub(crate) fn by_owner(&self) -> Index<K, String> {
        self.by_owner.clone()
    }

    /// Returns the object with this key if the owner controls it.
    pub(crate) fn get(&self, key: &ObjectKey, owner: &Owner) -> Option<Arc<K>> {
        self.children.get(key).filter(|found| owner.owns(found.meta()))
    }

    /// Creates or updates an object.
    ///
    /// An object that must be recreated is deleted first. The watch event of the deletion requeues
    /// the Tenant, and the next reconcile creates the object. An object of another owner is
    /// adopted, because its name is reserved.
    pub(crate) async fn apply(&self, owner: &Owner, desired: &K) -> Result<(), WriteError> {
        let key = ObjectKey::of(desired);
        if let Some(found) = self.get(&key, owner) {
            if desired.must_recreate(&found) && !is_deleting(found.as_ref()) {
                self.children.delete(&found).await?;
            }
            if self.get(&key, owner).is_some_and(|found| is_deleting(found.as_ref())) {
                return Ok(());
            }
        }
        let apply = |found: &mut K| desired.apply_to(found);
        match self.children.create_or_update(&key, owner, apply).await {
            Err(WriteError::NotOwned { object, holder, .. }) => {
                info!(object, holder, "adopted an object with a reserved name");
                self.children.take_over(&key, owner, apply, |found| desired.must_recreate(found)).await
            }
            applied => applied,
        }
        .map(drop)
    }

    /// Returns the objects that this owner controls and that are not desired.
    pub(crate) fn surplus(&self, owner_uid: &str, desired: &HashSet<ObjectKey>) -> Vec<Arc<K>> {
        let mut surplus = self.by_owner.get(&owner_uid.to_owned());
        surplus.retain(|object| {
            !is_deleting(object.as_ref()) && !desired.contains(&ObjectKey::of(object.as_ref()))
        });
        surplus
    }

    pub(crate) async fn delete(&self, object: &K) -> Result<(), WriteError> {
        self.children.delete(object).await
    }
}
