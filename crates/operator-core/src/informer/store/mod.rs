//! The store of an informer: objects and indexes.
//!
//! Writes of this process are recorded, so that a stale cache does not cause a second write.
//!
//! # Order of responses and events
//! A store is updated by lists and events of its watches, and by responses to the process's own
//! requests. Only lists and events arrive in order. A response can arrive after newer events and
//! must not revert them:
//!
//! - The watch delivers every change after its list, in the order of resource versions. A response
//!   that is newer than the last event is therefore valid, and later changes will be delivered.
//! - kube's watcher does not expose the resource version of a list. A request that was sent before
//!   a list ended can be older or newer than the list, so its response is dropped. The list or an
//!   event contains the object.
//! - After a restore of etcd, resource versions decrease. A list is applied even if it is older.
//!   Responses to requests from before the list are dropped, as above.

mod cached;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Weak},
};

pub use cached::Pack;
pub(super) use cached::{Cached, Packer, pack, pack_as_json};
use kube::{Resource, ResourceExt};
use parking_lot::RwLock;

use super::{
    Selection,
    index::{Index, IndexKey, IndexUpdate},
    scope::WatchStates,
};
use crate::kind::{Kind, ObjectKey};

/// A change of one object. `old` is `None` if it was created, `new` if it was deleted.
#[derive(Clone, Debug)]
pub struct Change<K> {
    /// Key of the object.
    pub key: ObjectKey,
    /// The object before the change.
    pub old: Option<Arc<K>>,
    /// The object after the change.
    pub new: Option<Arc<K>>,
}

impl<K> Change<K> {
    /// Returns the object before and after the change, as far as it existed.
    pub fn states(&self) -> impl Iterator<Item = &Arc<K>> {
        self.old.iter().chain(self.new.iter())
    }
}

/// Number of relists that have begun or ended in a store. See [`Store::epoch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch(u64);

/// The cached objects of an informer. Reads do not wait for the network.
pub struct Store<K> {
    inner: RwLock<Inner<K>>,
}

struct Inner<K> {
    objects: HashMap<ObjectKey, Cached<K>>,
    packer: Option<Packer<K>>,
    indexes: Vec<Weak<dyn IndexUpdate<K>>>,
    watches: WatchStates,
    selection: Selection,
    /// Number of relists that have begun or ended, over all watches.
    epoch: u64,
}

impl<K: Kind> Default for Store<K> {
    fn default() -> Self {
        Self::new(&[None], Selection::All, None)
    }
}

impl<K: Kind> Store<K> {
    /// Returns an empty store with one watch per watched namespace, which delivers the selected
    /// objects. They are kept as `packer` packs them.
    pub(super) fn new(
        watched_namespaces: &[Option<Arc<str>>],
        selection: Selection,
        packer: Option<Packer<K>>,
    ) -> Self {
        let (objects, indexes, watches) = (HashMap::new(), Vec::new(), WatchStates::new(watched_namespaces));
        Self { inner: RwLock::new(Inner { objects, packer, indexes, watches, selection, epoch: 0 }) }
    }

    /// Returns the object with this key.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.inner.read().get(key)
    }

    /// Returns whether there is an object with this key.
    pub fn contains(&self, key: &ObjectKey) -> bool {
        self.inner.read().objects.contains_key(key)
    }

    /// Returns all objects, in no particular order. Linear in the size of the store: prefer an
    /// [`Index`].
    pub fn list(&self) -> Vec<Arc<K>> {
        self.inner.read().objects.iter().map(|(key, object)| object.get(key)).collect()
    }

    /// Returns the keys of all objects, in no particular order.
    pub(super) fn keys(&self) -> Vec<ObjectKey> {
        self.inner.read().objects.keys().cloned().collect()
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.inner.read().objects.len()
    }

    /// Returns whether the store is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns an index of the objects by the keys that `keys` returns. Lookups take constant time.
    ///
    /// The store updates the index until it is dropped.
    pub fn index<I: IndexKey>(&self, keys: impl Fn(&K) -> Vec<I> + Send + Sync + 'static) -> Index<K, I> {
        let (index, update) = Index::new(keys);
        let mut inner = self.inner.write();
        for (key, object) in &inner.objects {
            update.replace(key, None, Some((object, &object.get(key))));
        }
        inner.indexes.retain(|index| index.strong_count() > 0);
        inner.indexes.push(Arc::downgrade(&update));
        index
    }

    /// Returns the current epoch. Call it before a request whose response is passed to
    /// [`Informer::record_write`](super::Informer::record_write) or
    /// [`Informer::record_delete`](super::Informer::record_delete).
    pub fn epoch(&self) -> Epoch {
        Epoch(self.inner.read().epoch)
    }

    /// Stores the response to a write of this process, so the next read returns it.
    ///
    /// Drops a response that is older than what the watch has delivered, or whose request was sent
    /// before the end of the last relist; see the module documentation. Removes an object that the
    /// selection does not include.
    pub(crate) fn record_write(&self, epoch: Epoch, object: K) -> Option<Change<K>> {
        let mut inner = self.inner.write();
        let (key, version) = (ObjectKey::of(&object), version(&object));
        let watch = inner.watches.get(key.namespace()).filter(|watch| watch.is_unchanged_since(epoch.0))?;
        let old = inner.get(&key);
        if version == 0 || version <= watch.last_version || is_newer(old.as_deref(), version) {
            return None;
        }
        if inner.selection.selects(&object) { inner.put(&key, old, object) } else { inner.take(&key) }
    }

    /// Removes an object that no longer exists, according to the response to a request of this
    /// process.
    ///
    /// Does nothing if the cached object has another UID. Drops a response whose request was sent
    /// before the end of the last relist, like [`Store::record_write`].
    pub(crate) fn record_delete(
        &self,
        epoch: Epoch,
        key: &ObjectKey,
        uid: Option<&str>,
    ) -> Option<Change<K>> {
        let mut inner = self.inner.write();
        inner.watches.get(key.namespace()).filter(|watch| watch.is_unchanged_since(epoch.0))?;
        let cached = inner.get(key)?;
        (cached.meta().uid.as_deref() == uid).then(|| inner.take(key)).flatten()
    }

    /// Begins a relist of the watch of this namespace.
    pub(super) fn begin_relist(&self, watched_namespace: Option<&str>) {
        let mut inner = self.inner.write();
        let epoch = inner.next_epoch();
        if let Some(watch) = inner.watches.get_mut(watched_namespace) {
            watch.listed = Some(HashSet::new());
            watch.epoch = epoch;
            watch.last_version = 0;
        }
    }

    /// Stores an object of a relist, even if it is older: after a restore, the older version is
    /// right.
    pub(super) fn apply_listed(&self, object: K) -> Option<Change<K>> {
        let mut inner = self.inner.write();
        let key = ObjectKey::of(&object);
        if let Some(listed) = inner.watches.get_mut(key.namespace()).and_then(|watch| watch.listed.as_mut()) {
            listed.insert(key.clone());
        }
        let old = inner.get(&key);
        inner.put(&key, old, object)
    }

    /// Ends the relist of the watch of this namespace. Removes the objects of this watch that were
    /// not listed.
    pub(super) fn end_relist(&self, watched_namespace: Option<&str>) -> Vec<Change<K>> {
        let mut inner = self.inner.write();
        let epoch = inner.next_epoch();
        let Some(watch) = inner.watches.get_mut(watched_namespace) else { return Vec::new() };
        watch.has_synced = true;
        watch.epoch = epoch;
        let Some(listed) = watch.listed.take() else { return Vec::new() };
        let covered = inner.objects.keys().filter(|key| WatchStates::covers(watched_namespace, key));
        let missing: Vec<_> = covered.filter(|key| !listed.contains(key)).cloned().collect();
        missing.iter().filter_map(|key| inner.take(key)).collect()
    }

    /// Records whether the API server forbids the watch of this namespace.
    pub(super) fn set_forbidden(&self, watched_namespace: Option<&str>, is_forbidden: bool) {
        let current = |inner: &Inner<K>| inner.watches.get(watched_namespace).map(|watch| watch.is_forbidden);
        if current(&self.inner.read()) == Some(!is_forbidden)
            && let Some(watch) = self.inner.write().watches.get_mut(watched_namespace)
        {
            watch.is_forbidden = is_forbidden;
        }
    }

    /// Returns whether all objects of a namespace have been listed once.
    pub(super) fn has_synced(&self, namespace: Option<&str>) -> bool {
        self.inner.read().watches.get(namespace).is_some_and(|watch| watch.has_synced)
    }

    /// Returns the watches that have not synced: the watched namespace of each, and whether the
    /// watch is forbidden.
    pub(super) fn unsynced(&self) -> Vec<(Option<String>, bool)> {
        let inner = self.inner.read();
        let unsynced = inner.watches.iter().filter(|(_, watch)| !watch.has_synced);
        unsynced.map(|(namespace, watch)| (namespace.map(str::to_owned), watch.is_forbidden)).collect()
    }

    /// Applies an event of the watch, unless the response to a write of this process was newer.
    pub(super) fn apply_event(&self, object: K) -> Option<Change<K>> {
        let mut inner = self.inner.write();
        let (key, version) = (ObjectKey::of(&object), version(&object));
        inner.record_version(key.namespace(), version);
        let old = inner.get(&key);
        if version > 0 && is_newer(old.as_deref(), version) { None } else { inner.put(&key, old, object) }
    }

    /// Applies a deletion at this version, like [`Store::apply_event`].
    pub(super) fn apply_deletion(&self, key: &ObjectKey, version: u64) -> Option<Change<K>> {
        let mut inner = self.inner.write();
        inner.record_version(key.namespace(), version);
        let old = inner.get(key);
        if version > 0 && is_newer(old.as_deref(), version) { None } else { inner.take(key) }
    }
}

impl<K: Kind> Inner<K> {
    fn next_epoch(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch
    }

    fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.objects.get(key).map(|object| object.get(key))
    }

    fn record_version(&mut self, namespace: Option<&str>, version: u64) {
        if let Some(watch) = self.watches.get_mut(namespace) {
            watch.last_version = watch.last_version.max(version);
        }
    }

    /// Stores the object with this key instead of the cached one. Returns no change if this version is cached already.
    fn put(&mut self, key: &ObjectKey, old: Option<Arc<K>>, object: K) -> Option<Change<K>> {
        let same = old.as_ref().is_some_and(|cached| {
            cached.uid() == object.uid() && cached.resource_version() == object.resource_version()
        });
        if same {
            return None;
        }
        let (cached, new) = Cached::new(object, self.packer);
        self.objects.insert(key.clone(), cached.clone());
        self.reindex(key, old.as_ref(), Some((&cached, &new)));
        Some(Change { key: key.clone(), old, new: Some(new) })
    }

    fn take(&mut self, key: &ObjectKey) -> Option<Change<K>> {
        let old = self.objects.remove(key)?.get(key);
        self.reindex(key, Some(&old), None);
        Some(Change { key: key.clone(), old: Some(old), new: None })
    }

    fn reindex(&self, key: &ObjectKey, old: Option<&Arc<K>>, new: Option<(&Cached<K>, &Arc<K>)>) {
        for index in self.indexes.iter().filter_map(Weak::upgrade) {
            index.replace(key, old, new);
        }
    }
}

/// Returns whether the cached object is newer than `version`. It can be another object with the same name.
fn is_newer<K: Resource>(cached: Option<&K>, version: u64) -> bool {
    cached.is_some_and(|cached| self::version(cached) > version)
}

/// Returns the resource version as a number, which it is since Kubernetes 1.35 (KEP-5504). Returns
/// 0 if it is not a number.
pub(super) fn version<K: Resource>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    pub(super) fn object(name: &str, version: u64) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.namespace = Some("ns".into());
        object.metadata.name = Some(name.into());
        object.metadata.uid = Some(format!("uid-{name}"));
        object.metadata.resource_version = Some(version.to_string());
        object
    }

    pub(super) fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("ns", name)
    }

    fn listed(objects: &[ConfigMap]) -> Store<ConfigMap> {
        let store = Store::default();
        store.begin_relist(None);
        for object in objects {
            store.apply_listed(object.clone());
        }
        store.end_relist(None);
        store
    }

    #[test]
    fn relist_removes_missing_objects() {
        let store = listed(&[object("a", 1), object("b", 2)]);
        store.begin_relist(None);
        assert!(store.apply_listed(object("a", 1)).is_none(), "the same version is no change");
        let removed = store.end_relist(None);
        assert_eq!(removed.len(), 1);
        assert_eq!(removed[0].key, key("b"));
        assert!(removed[0].new.is_none());
        assert!(store.get(&key("b")).is_none());
    }

    /// Returns a store of two namespaces with one object each.
    fn store_of_two_namespaces() -> Store<ConfigMap> {
        let store = Store::new(&[Some("a".into()), Some("b".into())], Selection::All, None);
        for namespace in ["a", "b"] {
            store.begin_relist(Some(namespace));
            store.apply_listed(object_in(namespace, 5));
            store.end_relist(Some(namespace));
        }
        store
    }

    fn object_in(namespace: &str, version: u64) -> ConfigMap {
        let mut object = object("web", version);
        object.metadata.namespace = Some(namespace.into());
        object
    }

    #[test]
    fn relist_of_one_namespace_keeps_objects_of_others() {
        let store = store_of_two_namespaces();
        store.begin_relist(Some("a"));
        let removed: Vec<_> = store.end_relist(Some("a")).into_iter().map(|change| change.key).collect();
        assert_eq!(removed, [ObjectKey::namespaced("a", "web")]);
        assert_eq!(store.len(), 1);
    }

    #[test]
    fn compares_a_write_with_the_watch_of_its_namespace() {
        let store = store_of_two_namespaces();
        store.apply_event(object_in("b", 20));
        let epoch = store.epoch();
        assert!(store.record_write(epoch, object_in("a", 10)).is_some(), "the watch of b does not cover a");
        store.begin_relist(Some("b"));
        assert!(store.record_write(epoch, object_in("a", 11)).is_some());
        assert!(store.record_write(epoch, object_in("b", 30)).is_none(), "a relist of b has begun");
    }

    #[test]
    fn namespaces_sync_one_by_one() {
        let store = Store::<ConfigMap>::new(&[Some("a".into()), Some("b".into())], Selection::All, None);
        store.begin_relist(Some("a"));
        assert!(!store.has_synced(Some("a")));
        store.end_relist(Some("a"));
        assert!(store.has_synced(Some("a")) && !store.has_synced(Some("b")));
        store.set_forbidden(Some("b"), true);
        assert_eq!(store.unsynced(), [(Some("b".to_owned()), true)]);
        store.set_forbidden(Some("b"), false);
        assert_eq!(store.unsynced(), [(Some("b".to_owned()), false)]);
    }

    #[test]
    fn write_is_cached_immediately_and_its_event_is_no_change() {
        let store = listed(&[]);
        let epoch = store.epoch();
        assert!(store.record_write(epoch, object("a", 5)).is_some());
        assert!(store.apply_event(object("a", 5)).is_none());
    }

    #[test]
    fn late_response_does_not_restore_a_deleted_object() {
        let store = listed(&[]);
        let epoch = store.epoch();
        store.apply_event(object("a", 5));
        store.apply_deletion(&key("a"), 6);
        assert!(store.record_write(epoch, object("a", 5)).is_none());
        assert!(store.get(&key("a")).is_none());
    }

    #[test]
    fn drops_response_to_a_write_from_before_a_relist() {
        let store = listed(&[]);
        let epoch = store.epoch();
        store.begin_relist(None);
        store.end_relist(None);
        assert!(store.record_write(epoch, object("a", 5)).is_none());
    }

    #[test]
    fn older_event_does_not_revert_a_write() {
        let store = listed(&[object("a", 1)]);
        let epoch = store.epoch();
        store.record_write(epoch, object("a", 5));
        assert!(store.apply_event(object("a", 3)).is_none());
        assert_eq!(store.get(&key("a")).unwrap().resource_version().as_deref(), Some("5"));
    }

    #[test]
    fn relist_applies_older_versions_after_a_restore() {
        let store = listed(&[object("a", 9)]);
        store.begin_relist(None);
        assert!(store.apply_listed(object("a", 3)).is_some());
        store.end_relist(None);
        assert_eq!(store.get(&key("a")).unwrap().resource_version().as_deref(), Some("3"));
        assert!(store.apply_event(object("a", 4)).is_some());
    }

    #[test]
    fn recorded_delete_removes_only_the_object_with_its_uid() {
        let store = listed(&[object("a", 1)]);
        let epoch = store.epoch();
        assert!(store.record_delete(epoch, &key("a"), Some("another")).is_none());
        assert!(store.record_delete(epoch, &key("a"), Some("uid-a")).is_some());
        assert!(store.is_empty());
    }

    #[test]
    fn late_response_does_not_restore_an_object_deleted_during_a_relist() {
        let store = listed(&[]);
        store.begin_relist(None);
        let epoch = store.epoch();
        // Created at version 5, deleted by another client at 6; the list has version 7.
        store.end_relist(None);
        assert!(store.record_write(epoch, object("a", 5)).is_none());
        assert!(store.is_empty());
    }

    #[test]
    fn late_response_does_not_revert_a_listed_object() {
        let store = listed(&[object("a", 1)]);
        store.begin_relist(None);
        let epoch = store.epoch();
        store.apply_listed(object("a", 9));
        assert!(store.record_write(epoch, object("a", 5)).is_none());
        store.end_relist(None);
        assert_eq!(store.get(&key("a")).unwrap().resource_version().as_deref(), Some("9"));
    }

    #[test]
    fn late_response_to_a_delete_keeps_an_object_that_a_restore_brought_back() {
        let store = listed(&[object("a", 1)]);
        let epoch = store.epoch();
        store.begin_relist(None);
        store.apply_listed(object("a", 1));
        store.end_relist(None);
        assert!(store.record_delete(epoch, &key("a"), Some("uid-a")).is_none());
    }

    #[test]
    fn older_response_does_not_revert_a_newer_one() {
        let store = listed(&[object("a", 1)]);
        let epoch = store.epoch();
        store.record_write(epoch, object("a", 6));
        assert!(store.record_write(epoch, object("a", 5)).is_none());
    }

    #[test]
    fn deletion_of_a_previous_object_does_not_revert_a_create() {
        let store = listed(&[object("a", 1)]);
        let mut created = object("a", 7);
        created.metadata.uid = Some("uid-new".into());
        store.record_write(store.epoch(), created);
        assert!(store.apply_deletion(&key("a"), 6).is_none());
        assert_eq!(store.get(&key("a")).unwrap().uid().as_deref(), Some("uid-new"));
    }

    #[test]
    fn write_outside_the_selection_is_not_cached() {
        let store = Store::new(&[None], Selection::Managed, None);
        let managed = |version| {
            let mut object = object("a", version);
            let label = (crate::labels::MANAGED_BY.to_owned(), crate::labels::MANAGER.to_owned());
            object.metadata.labels = Some([label].into());
            object
        };
        store.begin_relist(None);
        store.end_relist(None);
        assert!(store.record_write(store.epoch(), managed(5)).is_some());
        assert!(store.record_write(store.epoch(), object("a", 6)).is_some_and(|change| change.new.is_none()));
        assert!(store.record_write(store.epoch(), object("b", 7)).is_none());
        assert!(store.is_empty());
    }

    #[test]
    fn index_contains_existing_objects_and_follows_the_store() {
        let store = listed(&[object("a", 1), object("b", 2)]);
        let index = store.index(|object: &ConfigMap| vec![object.name_any()]);
        assert_eq!(index.get(&"b".to_owned()).len(), 1);
        store.apply_deletion(&key("b"), 3);
        assert!(index.get(&"b".to_owned()).is_empty());
        store.apply_event(object("c", 4));
        assert_eq!(index.get(&"c".to_owned()).len(), 1);
    }
}
