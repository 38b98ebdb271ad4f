//! Indexes of a store. In controller-runtime, `IndexField` adds such a field index.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use parking_lot::RwLock;

use super::store::{Handle, Inner};
use crate::kind::Kind;

/// Key of an index.
pub trait IndexKey: Hash + Eq + Send + Sync + 'static {}

impl<T: Hash + Eq + Send + Sync + 'static> IndexKey for T {}

/// Objects of a store by a property.
///
/// Created by [`Store::index`](super::Store::index), which keeps it up to date until it is dropped.
pub struct Index<K, I> {
    entries: Arc<Entries<K, I>>,
    store: Arc<RwLock<Inner<K>>>,
}

impl<K, I> Clone for Index<K, I> {
    fn clone(&self) -> Self {
        Self { entries: self.entries.clone(), store: self.store.clone() }
    }
}

impl<K: Kind, I: IndexKey> Index<K, I> {
    pub(super) fn new(
        store: &Arc<RwLock<Inner<K>>>,
        keys: impl Fn(&K) -> Vec<I> + Send + Sync + 'static,
    ) -> (Self, Arc<dyn IndexUpdate<K>>) {
        let entries = Arc::new(Entries { keys: Box::new(keys), map: RwLock::default() });
        (Self { entries: entries.clone(), store: store.clone() }, entries)
    }

    /// Returns the objects with this key, in no particular order.
    pub fn get(&self, key: &I) -> Vec<Arc<K>> {
        // The store is locked first, as when it updates the index, so that the two agree.
        let store = self.store.read();
        let map = self.entries.map.read();
        map.get(key).into_iter().flatten().filter_map(|handle| store.objects.at(*handle)).collect()
    }
}

/// The side of an index that the store updates.
pub(super) trait IndexUpdate<K>: Send + Sync {
    fn replace(&self, handle: Handle, old: Option<&K>, new: Option<&K>);
}

/// Function that returns the index keys of an object.
type Keys<K, I> = Box<dyn Fn(&K) -> Vec<I> + Send + Sync>;

struct Entries<K, I> {
    keys: Keys<K, I>,
    map: RwLock<HashMap<I, Vec<Handle>>>,
}

impl<K, I: IndexKey> IndexUpdate<K> for Entries<K, I> {
    fn replace(&self, handle: Handle, old: Option<&K>, new: Option<&K>) {
        let [old, new] =
            [old, new].map(|object| object.map(|object| (self.keys)(object)).unwrap_or_default());
        if old == new {
            return;
        }
        let mut map = self.map.write();
        for key in old {
            if let Some(found) = map.get_mut(&key) {
                found.retain(|other| *other != handle);
                if found.is_empty() {
                    map.remove(&key);
                }
            }
        }
        for key in new {
            let found = map.entry(key).or_default();
            // A key that the function returns twice counts once.
            if !found.contains(&handle) {
                found.push(handle);
            }
        }
    }
}
