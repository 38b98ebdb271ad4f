//! What an informer knows: the objects, and the indexes over them.
//!
//! # How answers and events are ordered
//! A store learns of an object from lists and events of its watch, and from answers to the process's own requests. Only
//! the former come in order. An answer may arrive long after newer events, and must not undo them:
//!
//! - The watch shows everything that comes after its list, in the order of versions. So an answer that is newer than
//!   the last event is right, and what changed the object since then is still to come.
//! - kube's watcher does not tell the version of a list. What was sent before the list ended may be older or newer than
//!   it, so answers to such requests are dropped: the list has shown the object, or an event will.
//! - After a restore of etcd, versions go back. A list is believed however old it is, and answers from before it are
//!   dropped for the same reason as above.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Weak},
};

use kube::{Resource, ResourceExt};
use parking_lot::RwLock;

use super::{
    Selection,
    index::{Index, IndexKey, Indexed},
    scope::WatchStates,
};
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
    parts: WatchStates,
    selection: Selection,
    /// How often a relist began or ended, in any of the parts.
    relists: u64,
}

impl<K: Kind> Default for Store<K> {
    fn default() -> Self {
        Self::new(&[None], Selection::All)
    }
}

impl<K: Kind> Store<K> {
    /// A store that is filled by one watch for each limit, which shows the objects of the selection.
    pub(super) fn new(limits: &[Option<Arc<str>>], selection: Selection) -> Self {
        let (objects, indexes, parts) = (HashMap::new(), Vec::new(), WatchStates::new(limits));
        Self { inner: RwLock::new(Inner { objects, indexes, parts, selection, relists: 0 }) }
    }

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

    /// The present moment, to be taken before a request whose answer goes to [`Store::wrote`] or [`Store::removed`].
    pub fn now(&self) -> Moment {
        Moment(self.inner.read().relists)
    }

    /// Takes in the answer to a write of our own, so that the next read sees it before the watch shows it.
    ///
    /// Drops an answer that is older than what the watch has shown, and one to a request that was sent before the end
    /// of the last relist: see the top of this file. An object that the watch does not select is taken out.
    pub(crate) fn wrote(&self, moment: Moment, object: K) -> Option<Change<K>> {
        let mut inner = self.inner.write();
        let (key, version) = (ObjectKey::of(&object), version(&object));
        let part = inner.parts.get(key.namespace()).filter(|part| part.is_listed_since(moment.0))?;
        if version == 0 || version <= part.seen || inner.is_newer(&key, version) {
            return None;
        }
        if inner.selection.selects(&object) { inner.put(object) } else { inner.take(&key) }
    }

    /// Takes out an incarnation of an object that an answer to a request of our own shows to be gone, before the watch
    /// shows it. Drops answers to requests that were sent before the end of the last relist, as [`Store::wrote`] does.
    pub(crate) fn removed(&self, moment: Moment, key: &ObjectKey, uid: Option<&str>) -> Option<Change<K>> {
        let mut inner = self.inner.write();
        inner.parts.get(key.namespace()).filter(|part| part.is_listed_since(moment.0))?;
        let found = inner.objects.get(key)?;
        (found.meta().uid.as_deref() == uid).then(|| inner.take(key)).flatten()
    }

    /// Begins a relist of the watch with this limit.
    pub(super) fn relist_began(&self, limit: Option<&str>) {
        let mut inner = self.inner.write();
        let relist = inner.next_relist();
        if let Some(part) = inner.parts.get_mut(limit) {
            part.listed = Some(HashSet::new());
            part.relist = relist;
            part.seen = 0;
        }
    }

    /// Takes in an object of the relist, however old it is: after a restore, older is right.
    pub(super) fn listed(&self, object: K) -> Option<Change<K>> {
        let mut inner = self.inner.write();
        let key = ObjectKey::of(&object);
        if let Some(listed) = inner.parts.get_mut(key.namespace()).and_then(|part| part.listed.as_mut()) {
            listed.insert(key);
        }
        inner.put(object)
    }

    /// Ends the relist of the watch with this limit and takes out what it did not show; objects that other watches
    /// show stay.
    pub(super) fn relist_ended(&self, limit: Option<&str>) -> Vec<Change<K>> {
        let mut inner = self.inner.write();
        let relist = inner.next_relist();
        let Some(part) = inner.parts.get_mut(limit) else { return Vec::new() };
        part.has_synced = true;
        part.relist = relist;
        let Some(listed) = part.listed.take() else { return Vec::new() };
        let covered = inner.objects.keys().filter(|key| WatchStates::covers(limit, key));
        let vanished: Vec<_> = covered.filter(|key| !listed.contains(key)).cloned().collect();
        vanished.iter().filter_map(|key| inner.take(key)).collect()
    }

    /// Notes whether the API server refuses the watch with this limit.
    pub(super) fn refused(&self, limit: Option<&str>, is_refused: bool) {
        let known = |inner: &Inner<K>| inner.parts.get(limit).map(|part| part.is_refused);
        if known(&self.inner.read()) == Some(!is_refused)
            && let Some(part) = self.inner.write().parts.get_mut(limit)
        {
            part.is_refused = is_refused;
        }
    }

    /// Whether all objects of a namespace have been listed once.
    pub(super) fn has_synced(&self, namespace: Option<&str>) -> bool {
        self.inner.read().parts.get(namespace).is_some_and(|part| part.has_synced)
    }

    /// The watches that have not listed anything yet: what each is limited to, and whether it is refused.
    pub(super) fn unsynced(&self) -> Vec<(Option<String>, bool)> {
        let inner = self.inner.read();
        let unsynced = inner.parts.iter().filter(|(_, part)| !part.has_synced);
        unsynced.map(|(limit, part)| (limit.map(str::to_owned), part.is_refused)).collect()
    }

    /// Takes in an event of the watch, unless an answer to a write of our own was newer.
    pub(super) fn applied(&self, object: K) -> Option<Change<K>> {
        let mut inner = self.inner.write();
        let (key, version) = (ObjectKey::of(&object), version(&object));
        inner.saw(key.namespace(), version);
        if version > 0 && inner.is_newer(&key, version) { None } else { inner.put(object) }
    }

    /// As [`Store::applied`], of an object that was deleted at this version.
    pub(super) fn deleted(&self, key: &ObjectKey, version: u64) -> Option<Change<K>> {
        let mut inner = self.inner.write();
        inner.saw(key.namespace(), version);
        if version > 0 && inner.is_newer(key, version) { None } else { inner.take(key) }
    }
}

impl<K: Kind> Inner<K> {
    fn next_relist(&mut self) -> u64 {
        self.relists += 1;
        self.relists
    }

    /// Whether what is known of an object, or of a namesake that came after it, is newer than this version.
    fn is_newer(&self, key: &ObjectKey, version: u64) -> bool {
        self.objects.get(key).is_some_and(|known| self::version(known.as_ref()) > version)
    }

    fn saw(&mut self, namespace: Option<&str>, version: u64) {
        if let Some(part) = self.parts.get_mut(namespace) {
            part.seen = part.seen.max(version);
        }
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
        store.relist_began(None);
        for object in objects {
            store.listed(object.clone());
        }
        store.relist_ended(None);
        store
    }

    #[test]
    fn what_a_relist_does_not_show_has_vanished() {
        let store = listed(&[object("a", 1), object("b", 2)]);
        store.relist_began(None);
        assert!(store.listed(object("a", 1)).is_none(), "the same version is no change");
        let vanished = store.relist_ended(None);
        assert_eq!(vanished.len(), 1);
        assert_eq!(vanished[0].key, key("b"));
        assert!(vanished[0].new.is_none());
        assert!(store.get(&key("b")).is_none());
    }

    /// A store of two namespaces, each with an object.
    fn of_two_namespaces() -> Store<ConfigMap> {
        let store = Store::new(&[Some("a".into()), Some("b".into())], Selection::All);
        for namespace in ["a", "b"] {
            store.relist_began(Some(namespace));
            store.listed(object_in(namespace, 5));
            store.relist_ended(Some(namespace));
        }
        store
    }

    fn object_in(namespace: &str, version: u64) -> ConfigMap {
        let mut object = object("web", version);
        object.metadata.namespace = Some(namespace.into());
        object
    }

    #[test]
    fn a_relist_of_one_namespace_takes_out_nothing_of_another() {
        let store = of_two_namespaces();
        store.relist_began(Some("a"));
        let vanished: Vec<_> = store.relist_ended(Some("a")).into_iter().map(|change| change.key).collect();
        assert_eq!(vanished, [ObjectKey::namespaced("a", "web")]);
        assert_eq!(store.len(), 1);
    }

    #[test]
    fn an_own_write_is_judged_by_the_watch_of_its_namespace() {
        let store = of_two_namespaces();
        store.applied(object_in("b", 20));
        let moment = store.now();
        assert!(store.wrote(moment, object_in("a", 10)).is_some(), "the watch of b says nothing about a");
        store.relist_began(Some("b"));
        assert!(store.wrote(moment, object_in("a", 11)).is_some());
        assert!(store.wrote(moment, object_in("b", 30)).is_none(), "a relist of b has crossed it");
    }

    #[test]
    fn a_store_is_filled_namespace_by_namespace() {
        let store = Store::<ConfigMap>::new(&[Some("a".into()), Some("b".into())], Selection::All);
        store.relist_began(Some("a"));
        assert!(!store.has_synced(Some("a")));
        store.relist_ended(Some("a"));
        assert!(store.has_synced(Some("a")) && !store.has_synced(Some("b")));
        store.refused(Some("b"), true);
        assert_eq!(store.unsynced(), [(Some("b".to_owned()), true)]);
        store.refused(Some("b"), false);
        assert_eq!(store.unsynced(), [(Some("b".to_owned()), false)]);
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
        store.deleted(&key("a"), 6);
        assert!(store.wrote(moment, object("a", 5)).is_none());
        assert!(store.get(&key("a")).is_none());
    }

    #[test]
    fn an_own_write_that_a_relist_crossed_is_left_to_the_watch() {
        let store = listed(&[]);
        let moment = store.now();
        store.relist_began(None);
        store.relist_ended(None);
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
        store.relist_began(None);
        assert!(store.listed(object("a", 3)).is_some());
        store.relist_ended(None);
        assert_eq!(store.get(&key("a")).unwrap().resource_version().as_deref(), Some("3"));
        assert!(store.applied(object("a", 4)).is_some());
    }

    #[test]
    fn an_own_delete_takes_out_only_the_incarnation_that_was_deleted() {
        let store = listed(&[object("a", 1)]);
        let moment = store.now();
        assert!(store.removed(moment, &key("a"), Some("another")).is_none());
        assert!(store.removed(moment, &key("a"), Some("uid-a")).is_some());
        assert!(store.is_empty());
    }

    #[test]
    fn an_object_that_was_created_and_deleted_during_a_relist_does_not_come_back_with_the_late_answer() {
        let store = listed(&[]);
        store.relist_began(None);
        let moment = store.now();
        // Created at version 5, deleted by somebody else at 6; the list is of version 7.
        store.relist_ended(None);
        assert!(store.wrote(moment, object("a", 5)).is_none());
        assert!(store.is_empty());
    }

    #[test]
    fn a_late_answer_does_not_undo_what_a_relist_has_listed() {
        let store = listed(&[object("a", 1)]);
        store.relist_began(None);
        let moment = store.now();
        store.listed(object("a", 9));
        assert!(store.wrote(moment, object("a", 5)).is_none());
        store.relist_ended(None);
        assert_eq!(store.get(&key("a")).unwrap().resource_version().as_deref(), Some("9"));
    }

    #[test]
    fn a_late_answer_to_a_delete_does_not_take_out_what_a_restore_brought_back() {
        let store = listed(&[object("a", 1)]);
        let moment = store.now();
        store.relist_began(None);
        store.listed(object("a", 1));
        store.relist_ended(None);
        assert!(store.removed(moment, &key("a"), Some("uid-a")).is_none());
    }

    #[test]
    fn an_older_answer_does_not_undo_a_newer_one() {
        let store = listed(&[object("a", 1)]);
        let moment = store.now();
        store.wrote(moment, object("a", 6));
        assert!(store.wrote(moment, object("a", 5)).is_none());
    }

    #[test]
    fn the_delete_of_a_namesake_does_not_undo_an_own_create() {
        let store = listed(&[object("a", 1)]);
        let mut created = object("a", 7);
        created.metadata.uid = Some("uid-new".into());
        store.wrote(store.now(), created);
        assert!(store.deleted(&key("a"), 6).is_none());
        assert_eq!(store.get(&key("a")).unwrap().uid().as_deref(), Some("uid-new"));
    }

    #[test]
    fn an_own_write_to_an_object_that_the_watch_does_not_select_is_not_kept() {
        let store = Store::new(&[None], Selection::Managed);
        let managed = |version| {
            let mut object = object("a", version);
            let label = (crate::labels::MANAGED_BY.to_owned(), crate::labels::MANAGER.to_owned());
            object.metadata.labels = Some([label].into());
            object
        };
        store.relist_began(None);
        store.relist_ended(None);
        assert!(store.wrote(store.now(), managed(5)).is_some());
        assert!(store.wrote(store.now(), object("a", 6)).is_some_and(|change| change.new.is_none()));
        assert!(store.wrote(store.now(), object("b", 7)).is_none());
        assert!(store.is_empty());
    }

    #[test]
    fn an_index_follows_the_store_and_knows_what_was_there_before_it() {
        let store = listed(&[object("a", 1), object("b", 2)]);
        let index = store.index(|object: &ConfigMap| vec![object.name_any()]);
        assert_eq!(index.get(&"b".to_owned()).len(), 1);
        store.deleted(&key("b"), 3);
        assert!(index.get(&"b".to_owned()).is_empty());
        store.applied(object("c", 4));
        assert_eq!(index.get(&"c".to_owned()).len(), 1);
    }
}
