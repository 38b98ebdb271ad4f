//! Informers: one watch per kind in the process, any number of controllers on it.
//!
//! kube's own shared streams do not report deletes and can stall (kube issue 1590), so the sharing is done
//! here, over kube's `watcher`.
//!
//! # Guarantees
//! - A subscriber is told of every object that appears, changes or goes, also of those that went while the
//!   watch was down: after a relist, what is missing is reported as gone.
//! - Changes of one object come in order. Several changes may be told as one.
//! - A subscriber that comes late is told of what is there already.
//! - In a process that looks into some namespaces only, there is a watch for each of them and kind; one that is
//!   broken or lists anew concerns the objects of its namespace only.
//! - A broken watch is retried for ever with backoff, and logged once when it breaks and once when it heals.
//!
//! # Not guaranteed
//! That the store is current. Whoever acts on it guards each write by names, UIDs or resource versions.

mod factory;
mod index;
mod raw;
mod scope;
mod store;
mod synced;
mod watch;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

pub use factory::{Informers, Selection};
pub use index::{Index, IndexKey};
use parking_lot::{Mutex, RwLock};
pub use raw::{Listing, list_pages};
pub use scope::Scope;
pub use store::{Change, Moment, Store};
pub(crate) use synced::SyncedInformers;
use tokio::sync::watch::{Receiver, Sender};

use crate::kind::Kind;

/// What a subscriber is called with; it must return quickly and must not call back into the informer's
/// `subscribe`.
type Subscriber<K> = Arc<dyn Fn(&Change<K>) + Send + Sync>;

/// What is called when more has been listed.
type OnSynced = Arc<dyn Fn() + Send + Sync>;

/// A shared view of all objects of one kind. Cheap to clone; all clones share one watch.
pub struct Informer<K> {
    shared: Arc<Shared<K>>,
}

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

struct Shared<K> {
    store: Store<K>,
    subscribers: RwLock<Vec<(u64, Subscriber<K>)>>,
    /// Called whenever a namespace, or all of the cluster, has been listed for the first time.
    sync_subscribers: RwLock<Vec<(u64, OnSynced)>>,
    next_subscriber: AtomicU64,
    /// OwnedFinalizer while a change is made and told, so that changes are told in the order in which they are made.
    telling: Mutex<()>,
    synced: Sender<bool>,
}

/// Ends the subscription when dropped.
#[must_use = "a subscription ends when it is dropped"]
pub struct Subscription(#[allow(dead_code, reason = "held for its drop")] Box<dyn Send + Sync>);

struct Unsubscribe<K: Kind>(Arc<Shared<K>>, u64);

impl<K: Kind> Drop for Unsubscribe<K> {
    fn drop(&mut self) {
        self.0.subscribers.write().retain(|(id, _)| *id != self.1);
        self.0.sync_subscribers.write().retain(|(id, _)| *id != self.1);
    }
}

impl<K: Kind> Informer<K> {
    fn new(limits: &[Option<Arc<str>>], selection: Selection) -> Self {
        Self {
            shared: Arc::new(Shared {
                store: Store::new(limits, selection),
                subscribers: RwLock::default(),
                sync_subscribers: RwLock::default(),
                next_subscriber: AtomicU64::new(0),
                telling: Mutex::new(()),
                synced: Sender::new(false),
            }),
        }
    }

    /// What the informer knows.
    pub fn store(&self) -> &Store<K> {
        &self.shared.store
    }

    /// Calls `told` for every object that is there now, and from then on for every change.
    pub fn subscribe(&self, told: impl Fn(&Change<K>) + Send + Sync + 'static) -> Subscription {
        let told: Subscriber<K> = Arc::new(told);
        let id = self.shared.next_subscriber.fetch_add(1, Ordering::Relaxed);
        let _in_order = self.shared.telling.lock();
        for object in self.shared.store.list() {
            let key = crate::kind::ObjectKey::of(object.as_ref());
            told(&Change { key, old: None, new: Some(object) });
        }
        self.shared.subscribers.write().push((id, told));
        Subscription(Box::new(Unsubscribe(self.shared.clone(), id)))
    }

    /// Whether the store has been filled once.
    pub fn is_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Whether all objects of a namespace have been listed once.
    pub(crate) fn has_synced(&self, namespace: Option<&str>) -> bool {
        self.shared.store.has_synced(namespace)
    }

    /// Calls `told` whenever a namespace, or all of the cluster, has been listed for the first time.
    pub(crate) fn on_synced(&self, told: impl Fn() + Send + Sync + 'static) -> Subscription {
        let id = self.shared.next_subscriber.fetch_add(1, Ordering::Relaxed);
        self.shared.sync_subscribers.write().push((id, Arc::new(told)));
        Subscription(Box::new(Unsubscribe(self.shared.clone(), id)))
    }

    /// Ends the relist of the watch with this limit.
    fn relist_ended(&self, limit: Option<&str>) {
        let had_synced = self.has_synced(limit);
        self.change(|store| store.relist_ended(limit));
        if had_synced {
            return;
        }
        if self.store().unsynced().is_empty() {
            self.shared.synced.send_replace(true);
        }
        let told: Vec<_> = self.shared.sync_subscribers.read().iter().map(|(_, told)| told.clone()).collect();
        for told in told {
            told();
        }
    }

    /// Follows whether the store has been filled once.
    pub fn synced(&self) -> Receiver<bool> {
        self.shared.synced.subscribe()
    }

    /// Takes in the answer to a write of our own; see [`Store::now`].
    pub fn wrote(&self, moment: Moment, object: K) {
        self.change(|store| store.wrote(moment, object));
    }

    /// The object with what has been written to it since, as long as its spec is the same; else as it is given.
    pub fn latest(&self, object: Arc<K>) -> Arc<K> {
        let (uid, generation) = (&object.meta().uid, object.meta().generation);
        let known = self.store().get(&crate::kind::ObjectKey::of(object.as_ref()));
        known
            .filter(|known| known.meta().uid == *uid && known.meta().generation == generation)
            .unwrap_or(object)
    }

    /// Takes out an incarnation of an object that an answer to a request of our own shows to be gone; see [`Store::now`].
    pub fn removed(&self, moment: Moment, key: &crate::kind::ObjectKey, uid: Option<&str>) {
        self.change(|store| store.removed(moment, key, uid));
    }

    /// Makes changes and tells the subscribers of them.
    fn change<C: IntoIterator<Item = Change<K>>>(&self, make: impl FnOnce(&Store<K>) -> C) {
        let _in_order = self.shared.telling.lock();
        let changes = make(&self.shared.store);
        let subscribers = self.shared.subscribers.read().clone();
        for change in changes {
            for (_, told) in &subscribers {
                told(&change);
            }
        }
    }
}
