//! Indexes of a store. In controller-runtime, `IndexField` adds such a field index.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use parking_lot::RwLock;

use super::store::Cached;
use crate::kind::ObjectKey;

/// Key of an index.
pub trait IndexKey: Hash + Eq + Send + Sync + 'static {}

impl<T: Hash + Eq + Send + Sync + 'static> IndexKey for T {}

/// Objects of a store by a property.
///
/// Created by [`Store::index`](super::Store::index), which keeps it up to date until it is dropped.
pub struct Index<K, I> {
    entries: Arc<Entries<K, I>>,
}

impl<K, I> Clone for Index<K, I> {
    fn clone(&self) -> Self {
        Self { entries: self.entries.clone() }
    }
}

impl<K: Send + Sync + 'static, I: IndexKey> Index<K, I> {
    pub(super) fn new(
        keys: impl Fn(&K) -> Vec<I> + Send + Sync + 'static,
    ) -> (Self, Arc<dyn IndexUpdate<K>>) {
        let entries = Arc::new(Entries { keys: Box::new(keys), map: RwLock::default() });
        (Self { entries: entries.clone() }, entries)
    }

    /// Returns the objects with this key, in no particular order.
    pub fn get(&self, key: &I) -> Vec<Arc<K>> {
        let map = self.entries.map.read();
        let found = map.get(key).into_iter().flatten();
        found.map(|(key, object)| object.get(key)).collect()
    }

    /// Returns whether there is an object with this key.
    pub fn contains(&self, key: &I) -> bool {
        self.entries.map.read().contains_key(key)
    }
}

/// The side of an index that the store updates.
pub(super) trait IndexUpdate<K>: Send + Sync {
    /// Replaces the entries of an object, which is given in the form that the store keeps, and unpacked.
    fn replace(&self, key: &ObjectKey, old: Option<&Arc<K>>, new: Option<(&Cached<K>, &Arc<K>)>);
}

/// Function that returns the index keys of an object.
type Keys<K, I> = Box<dyn Fn(&K) -> Vec<I> + Send + Sync>;

struct Entries<K, I> {
    keys: Keys<K, I>,
    map: RwLock<HashMap<I, HashMap<ObjectKey, Cached<K>>>>,
}

impl<K: Send + Sync, I: IndexKey> IndexUpdate<K> for Entries<K, I> {
    fn replace(&self, key: &ObjectKey, old: Option<&Arc<K>>, new: Option<(&Cached<K>, &Arc<K>)>) {
        let mut map = self.map.write();
        for entry in old.map(|object| (self.keys)(object)).unwrap_or_default() {
            if let Some(found) = map.get_mut(&entry) {
                found.remove(key);
                if found.is_empty() {
                    map.remove(&entry);
                }
            }
        }
        if let Some((cached, object)) = new {
            for entry in (self.keys)(object) {
                map.entry(entry).or_default().insert(key.clone(), cached.clone());
            }
        }
    }
}
