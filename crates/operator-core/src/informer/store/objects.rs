//! The objects of a store, packed if their kind can be.

use std::{collections::HashMap, sync::Arc};

use slab::Slab;

use crate::{
    informer::packing::Packing,
    kind::{Kind, ObjectKey},
};

/// Number of an object in a store. Takes less memory in an index than the key or the object. It is
/// the same for all versions of the object, and free for another one after its deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::informer) struct Handle(usize);

/// Objects by key and by handle.
pub(in crate::informer) struct Objects<K> {
    handles: HashMap<ObjectKey, Handle>,
    entries: Slab<Entry<K>>,
    packing: Option<Packing<K>>,
}

struct Entry<K> {
    version: u64,
    object: Stored<K>,
}

enum Stored<K> {
    Whole(Arc<K>),
    Packed(Box<[u8]>),
}

impl<K: Kind> Objects<K> {
    /// Returns an empty collection, which packs its objects if there is a packing.
    pub(super) fn new(packing: Option<Packing<K>>) -> Self {
        Self { handles: HashMap::new(), entries: Slab::new(), packing }
    }

    pub(super) fn len(&self) -> usize {
        self.handles.len()
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.handles.get(key).and_then(|handle| self.at(*handle))
    }

    /// Returns the object with this handle.
    pub(in crate::informer) fn at(&self, handle: Handle) -> Option<Arc<K>> {
        self.entries.get(handle.0).and_then(|entry| self.unpack(&entry.object))
    }

    /// Returns the resource version of an object.
    pub(super) fn version(&self, key: &ObjectKey) -> Option<u64> {
        self.handles.get(key).and_then(|handle| self.entries.get(handle.0)).map(|entry| entry.version)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.handles.keys()
    }

    /// Returns all objects with their handles, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Handle, Arc<K>)> {
        let unpacked =
            |(number, entry): (usize, &Entry<K>)| Some((Handle(number), self.unpack(&entry.object)?));
        self.entries.iter().filter_map(unpacked)
    }

    /// Stores an object. Returns its handle.
    pub(super) fn insert(&mut self, key: &ObjectKey, object: &Arc<K>) -> Handle {
        let packed = self.packing.and_then(|packing| (packing.pack)(object));
        let stored = packed.map_or_else(|| Stored::Whole(object.clone()), Stored::Packed);
        let entry = Entry { version: super::version(object.as_ref()), object: stored };
        if let Some(handle) = self.handles.get(key)
            && let Some(known) = self.entries.get_mut(handle.0)
        {
            *known = entry;
            return *handle;
        }
        let handle = Handle(self.entries.insert(entry));
        self.handles.insert(key.clone(), handle);
        handle
    }

    /// Removes an object. Returns it with the handle that it had.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<(Handle, Arc<K>)> {
        let handle = self.handles.remove(key)?;
        let object = self.entries.try_remove(handle.0)?.object;
        self.unpack(&object).map(|object| (handle, object))
    }

    fn unpack(&self, stored: &Stored<K>) -> Option<Arc<K>> {
        match stored {
            Stored::Whole(object) => Some(object.clone()),
            Stored::Packed(packed) => self.packing.and_then(|packing| (packing.unpack)(packed)).map(Arc::new),
        }
    }
}
