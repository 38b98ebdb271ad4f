//! What an informer knows: the objects, and the indexes over them.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Weak},
};

use kube::{Resource, ResourceExt};
use parking_lot::RwLock;

use super::index::{Index, IndexKey, Indexed};
use crate::kind::{Kind, ObjectKey};

/// What happened to one object: `old` is absent for a new one, `new` for one that is gone.
#[derive(Clone, Debug)]
pub struct Change<K> {
    /// Which object.
    pub key: ObjectKey,
    /// The object as it was known before.
    pub old: Option<Arc<K>>,
    /// The object as it is now.
    pub new: Option<Arc<K>>,
}

impl<K> Change<K> {
    /// The states of the object that the change involves, the newer one last.
    pub fn states(&self) -> impl Iterator<Item = &Arc<K>> {
        self.old.iter().chain(self.new.iter())
    }
}

/// A moment in the life of a store; see [`Store::now`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment(u64);

/// The objects an informer holds. Reads never wait for the network.
pub struct Store<K> {
    inner: RwLock<Inner<K>>,
}

struct Inner<K> {
    objects: HashMap<ObjectKey, Arc<K>>,
    indexes: Vec<Weak<dyn Indexed<K>>>,
    /// Keys seen since the present relist began.
    listed: Option<HashSet<ObjectKey>>,
    /// How often a relist began.
    epoch: u64,
    /// The newest resource version that the watch has shown in this epoch.
    seen: u64,
}

impl<K: Kind> Default for Store<K> {
    fn default() -> Self {
        Self {
            inner: RwLock::new(Inner {
                objects: HashMap::new(),
                indexes: Vec::new(),
                listed: None,
                epoch: 0,
                seen: 0,
            }),
        }
    }
}

impl<K: Kind> Store<K> {
    /// The object of a key.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.inner.read().objects.get(key).cloned()
    }

    /// All objects, in no order. Prefer an [`Index`]: this is linear in the size of the store.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.inner.read().objects.values().cloned().collect()
    }

    /// How many objects are held.
    pub fn len(&self) -> usize {
        self.inner.read().objects.len()
    }

    /// Whether no object is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An index that answers "which objects have this key?" in constant time. It follows the store for as
    /// long as it is held.
    pub fn index<I: IndexKey>(&self, keys: impl Fn(&K) -> Vec<I> + Send + Sync + 'static) -> Index<K, I> {
        let (index, sink) = Index::new(keys);
        let mut inner = self.inner.write();
        for (key, object) in &inner.objects {
            sink.replace(key, None, Some(object));
        }
        inner.indexes.retain(|index| index.strong_count() > 0);
        inner.indexes.push(Arc::downgrade(&sink));
        index
    }

    /// The present moment, to be taken before a write whose answer goes to [`Store::wrote`].
    pub fn now(&self) -> Moment {
        Moment(self.inner.read().epoch)
    }

    /// Takes in the answer to a write of our own, so that the next read sees it before the watch tells.
    ///
    /// An answer that the watch has overtaken, or that a relist has crossed, is left out: the watch is
    /// right. So an object that somebody deleted in between is never brought back.
    pub(crate) fn wrote(&self, moment: Moment, object: K) -> Option<Change<K>> {
        let mut inner = self.inner.write();
        let version = version(&object);
        if inner.epoch != moment.0 || version == 0 || version <= inner.seen {
            return None;
        }
        inner.put(object)
    }

    /// Takes out an object that our own delete has ended, before the watch tells.
    pub(crate) fn removed(&self, key: &ObjectKey, uid: Option<&str>) -> Option<Change<K>> {
        let mut inner = self.inner.write();
        let found = inner.objects.get(key)?;
        (found.meta().uid.as_deref() == uid).then(|| inner.take(key)).flatten()
    }

    pub(super) fn relist_began(&self) {
        let mut inner = self.inner.write();
        inner.listed = Some(HashSet::new());
        inner.epoch += 1;
        inner.seen = 0;
    }

    /// Takes in an object of the relist, however old it is: after a restore, older is right.
    pub(super) fn listed(&self, object: K) -> Option<Change<K>> {
        let mut inner = self.inner.write();
        let key = ObjectKey::of(&object);
        if let Some(listed) = &mut inner.listed {
            listed.insert(key);
        }
        inner.put(object)
    }

    /// Ends the relist and takes out what it did not show.
    pub(super) fn relist_ended(&self) -> Vec<Change<K>> {
        let mut inner = self.inner.write();
        let Some(listed) = inner.listed.take() else { return Vec::new() };
        let vanished: Vec<_> = inner.objects.keys().filter(|key| !listed.contains(key)).cloned().collect();
        vanished.iter().filter_map(|key| inner.take(key)).collect()
    }

    pub(super) fn applied(&self, object: K) -> Option<Change<K>> {
        let mut inner = self.inner.write();
        inner.saw(&object);
        let known = inner.objects.get(&ObjectKey::of(&object));
        let overtaken = known.is_some_and(|known| {
            known.uid() == object.uid() && version(known.as_ref()) > version(&object) && version(&object) > 0
        });
        if overtaken { None } else { inner.put(object) }
    }

    pub(super) fn deleted(&self, object: &K) -> Option<Change<K>> {
        let mut inner = self.inner.write();
        inner.saw(object);
        inner.take(&ObjectKey::of(object))
    }
}

impl<K: Kind> Inner<K> {
    fn saw(&mut self, object: &K) {
        self.seen = self.seen.max(version(object));
    }

    /// Stores the object; no change if it is the very version that is known.
    fn put(&mut self, object: K) -> Option<Change<K>> {
        let key = ObjectKey::of(&object);
        let same = self.objects.get(&key).is_some_and(|known| {
            known.uid() == object.uid() && known.resource_version() == object.resource_version()
        });
        if same {
            return None;
        }
        let new = Arc::new(object);
        let old = self.objects.insert(key.clone(), new.clone());
        self.reindex(&key, old.as_ref(), Some(&new));
        Some(Change { key, old, new: Some(new) })
    }

    fn take(&mut self, key: &ObjectKey) -> Option<Change<K>> {
        let old = self.objects.remove(key)?;
        self.reindex(key, Some(&old), None);
        Some(Change { key: key.clone(), old: Some(old), new: None })
    }

    fn reindex(&self, key: &ObjectKey, old: Option<&Arc<K>>, new: Option<&Arc<K>>) {
        for index in self.indexes.iter().filter_map(Weak::upgrade) {
            index.replace(key, old, new);
        }
    }
}

/// The resource version as a number, which it is on every Kubernetes since 1.35 (KEP-5504); 0 if it is not.
fn version<K: Resource>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn object(name: &str, version: u64) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.namespace = Some("ns".into());
        object.metadata.name = Some(name.into());
        object.metadata.uid = Some(format!("uid-{name}"));
        object.metadata.resource_version = Some(version.to_string());
        object
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("ns", name)
    }

    fn listed(objects: &[ConfigMap]) -> Store<ConfigMap> {
        let store = Store::default();
        store.relist_began();
        for object in objects {
            store.listed(object.clone());
        }
        store.relist_ended();
        store
    }

    #[test]
    fn what_a_relist_does_not_show_has_vanished() {
        let store = listed(&[object("a", 1), object("b", 2)]);
        store.relist_began();
        assert!(store.listed(object("a", 1)).is_none(), "the same version is no change");
        let vanished = store.relist_ended();
        assert_eq!(vanished.len(), 1);
        assert_eq!(vanished[0].key, key("b"));
        assert!(vanished[0].new.is_none());
        assert!(store.get(&key("b")).is_none());
    }

    #[test]
    fn an_own_write_is_seen_at_once_and_its_echo_is_no_change() {
        let store = listed(&[]);
        let moment = store.now();
        assert!(store.wrote(moment, object("a", 5)).is_some());
        assert!(store.applied(object("a", 5)).is_none());
    }

    #[test]
    fn an_own_write_that_the_watch_overtook_does_not_bring_a_deleted_object_back() {
        let store = listed(&[]);
        let moment = store.now();
        store.applied(object("a", 5));
        store.deleted(&object("a", 6));
        assert!(store.wrote(moment, object("a", 5)).is_none());
        assert!(store.get(&key("a")).is_none());
    }

    #[test]
    fn an_own_write_that_a_relist_crossed_is_left_to_the_watch() {
        let store = listed(&[]);
        let moment = store.now();
        store.relist_began();
        store.relist_ended();
        assert!(store.wrote(moment, object("a", 5)).is_none());
    }

    #[test]
    fn an_older_event_does_not_undo_an_own_write() {
        let store = listed(&[object("a", 1)]);
        let moment = store.now();
        store.wrote(moment, object("a", 5));
        assert!(store.applied(object("a", 3)).is_none());
        assert_eq!(store.get(&key("a")).unwrap().resource_version().as_deref(), Some("5"));
    }

    #[test]
    fn a_restore_that_turns_versions_back_is_believed() {
        let store = listed(&[object("a", 9)]);
        store.relist_began();
        assert!(store.listed(object("a", 3)).is_some());
        store.relist_ended();
        assert_eq!(store.get(&key("a")).unwrap().resource_version().as_deref(), Some("3"));
        assert!(store.applied(object("a", 4)).is_some());
    }

    #[test]
    fn an_own_delete_takes_out_only_the_incarnation_that_was_deleted() {
        let store = listed(&[object("a", 1)]);
        assert!(store.removed(&key("a"), Some("another")).is_none());
        assert!(store.removed(&key("a"), Some("uid-a")).is_some());
        assert!(store.is_empty());
    }

    #[test]
    fn an_index_follows_the_store_and_knows_what_was_there_before_it() {
        let store = listed(&[object("a", 1), object("b", 2)]);
        let index = store.index(|object: &ConfigMap| vec![object.name_any()]);
        assert_eq!(index.get(&"b".to_owned()).len(), 1);
        store.deleted(&object("b", 3));
        assert!(index.get(&"b".to_owned()).is_empty());
        store.applied(object("c", 4));
        assert_eq!(index.get(&"c".to_owned()).len(), 1);
    }
}
