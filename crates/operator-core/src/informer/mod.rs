//! Informers: shared caches that one watch per kind keeps up to date.
//!
//! kube's shared streams do not report deletions and can stall (kube issue 1590), so this module
//! shares caches on top of kube's `watcher`.
//!
//! # Guarantees
//! - A subscriber receives every creation, change, and deletion. This includes deletions while the
//!   watch was interrupted: after a relist, missing objects are reported as deleted.
//! - Changes of one object are delivered in order. Several changes can be combined into one.
//! - A new subscriber first receives all cached objects.
//! - If the process watches only some namespaces, each namespace and kind has its own watch. A
//!   failure or a relist affects only the objects of that namespace.
//! - A failed watch is retried with backoff, without limit. It is logged once when it fails and
//!   once when it works again.
//!
//! # Not guaranteed
//! The cache can be stale. Protect each write with fixed names, UIDs, or resource versions.

mod factory;
mod failure;
mod index;
mod raw;
mod scope;
mod store;
mod synced;
mod watch;
mod watch_client;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

pub use factory::{Informers, Selection};
use failure::WatchFailure;
pub use index::{Index, IndexKey};
use parking_lot::{Mutex, RwLock};
pub use raw::{Listing, list_pages};
pub use scope::Scope;
use store::Packer;
pub use store::{Change, Epoch, Pack, Store};
pub(crate) use synced::SyncedInformers;
use tokio::sync::watch::{Receiver, Sender};

use crate::{
    kind::{Kind, ObjectKey},
    protobuf::Protobuf,
};

/// Callback of a subscription. It must return quickly and must not call `subscribe`.
type Subscriber<K> = Arc<dyn Fn(&Change<K>) + Send + Sync>;

/// Callback when another scope has synced.
type SyncCallback = Arc<dyn Fn() + Send + Sync>;

/// A cache of the objects of one kind. Cheap to clone; all clones share one watch.
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
    /// Called when a namespace or the cluster has synced for the first time.
    sync_callbacks: RwLock<Vec<(u64, SyncCallback)>>,
    next_subscriber: AtomicU64,
    /// Held while a change is stored and delivered, so changes are delivered in order.
    delivery: Mutex<()>,
    synced: Sender<bool>,
    failure: WatchFailure,
    format: Option<Protobuf>,
}

/// A subscription, which ends when dropped.
#[must_use = "a subscription ends when it is dropped"]
pub struct Subscription(#[allow(dead_code, reason = "held for its drop")] Box<dyn Send + Sync>);

struct Unsubscribe<K: Kind>(Arc<Shared<K>>, u64);

impl<K: Kind> Drop for Unsubscribe<K> {
    fn drop(&mut self) {
        self.0.subscribers.write().retain(|(id, _)| *id != self.1);
        self.0.sync_callbacks.write().retain(|(id, _)| *id != self.1);
    }
}

impl<K: Kind> Informer<K> {
    fn new(
        watched_namespaces: &[Option<Arc<str>>],
        selection: Selection,
        packer: Option<Packer<K>>,
        format: Option<Protobuf>,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                store: Store::new(watched_namespaces, selection, packer),
                subscribers: RwLock::default(),
                sync_callbacks: RwLock::default(),
                next_subscriber: AtomicU64::new(0),
                delivery: Mutex::new(()),
                synced: Sender::new(false),
                failure: WatchFailure::default(),
                format,
            }),
        }
    }

    /// Returns the format in which the objects are requested, or `None` for JSON.
    pub(crate) fn format(&self) -> Option<Protobuf> {
        self.shared.format
    }

    /// Returns the cached objects.
    pub fn store(&self) -> &Store<K> {
        &self.shared.store
    }

    /// Calls `subscriber` for every cached object, and then for every change.
    pub fn subscribe(&self, subscriber: impl Fn(&Change<K>) + Send + Sync + 'static) -> Subscription {
        let subscriber: Subscriber<K> = Arc::new(subscriber);
        let id = self.shared.next_subscriber.fetch_add(1, Ordering::Relaxed);
        let _delivery = self.shared.delivery.lock();
        for key in self.shared.store.keys() {
            if let Some(object) = self.shared.store.get(&key) {
                subscriber(&Change { key, old: None, new: Some(object) });
            }
        }
        self.shared.subscribers.write().push((id, subscriber));
        Subscription(Box::new(Unsubscribe(self.shared.clone(), id)))
    }

    /// Returns whether all objects have been listed once.
    pub fn is_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Returns whether a watch of the informer has failed, or has waited for a response, for at least `time`,
    /// so that the cache can be older than that.
    pub fn has_failed_for(&self, time: Duration) -> bool {
        self.shared.failure.has_lasted(time)
    }

    /// Returns whether all objects of a namespace have been listed once.
    pub(crate) fn has_synced(&self, namespace: Option<&str>) -> bool {
        self.shared.store.has_synced(namespace)
    }

    /// Calls `callback` when a namespace or the cluster has synced for the first time.
    pub(crate) fn on_synced(&self, callback: impl Fn() + Send + Sync + 'static) -> Subscription {
        let id = self.shared.next_subscriber.fetch_add(1, Ordering::Relaxed);
        self.shared.sync_callbacks.write().push((id, Arc::new(callback)));
        Subscription(Box::new(Unsubscribe(self.shared.clone(), id)))
    }

    /// Ends a relist of the watch of this namespace.
    fn end_relist(&self, watched_namespace: Option<&str>) {
        let had_synced = self.has_synced(watched_namespace);
        self.update(|store| store.end_relist(watched_namespace));
        if had_synced {
            return;
        }
        if self.store().unsynced().is_empty() {
            self.shared.synced.send_replace(true);
        }
        let callbacks: Vec<_> =
            self.shared.sync_callbacks.read().iter().map(|(_, callback)| callback.clone()).collect();
        for callback in callbacks {
            callback();
        }
    }

    /// Returns a receiver that changes when all objects have been listed once.
    pub fn synced(&self) -> Receiver<bool> {
        self.shared.synced.subscribe()
    }

    /// Stores the response to a write of this process. Take `epoch` from [`Store::epoch`] before
    /// the request.
    pub fn record_write(&self, epoch: Epoch, object: K) {
        self.update(|store| store.record_write(epoch, object));
    }

    /// Returns the cached version of an object if UID and generation are equal, or else `object`.
    pub fn latest(&self, object: Arc<K>) -> Arc<K> {
        let (uid, generation) = (&object.meta().uid, object.meta().generation);
        let cached = self.store().get(&ObjectKey::of(object.as_ref()));
        cached
            .filter(|cached| cached.meta().uid == *uid && cached.meta().generation == generation)
            .unwrap_or(object)
    }

    /// Removes an object that no longer exists, according to the response to a request of this
    /// process. Take `epoch` from [`Store::epoch`] before the request.
    pub fn record_delete(&self, epoch: Epoch, key: &ObjectKey, uid: Option<&str>) {
        self.update(|store| store.record_delete(epoch, key, uid));
    }

    /// Updates the store and delivers the changes.
    fn update<C: IntoIterator<Item = Change<K>>>(&self, update: impl FnOnce(&Store<K>) -> C) {
        let _delivery = self.shared.delivery.lock();
        let changes = update(&self.shared.store);
        let subscribers = self.shared.subscribers.read().clone();
        for change in changes {
            for (_, subscriber) in &subscribers {
                subscriber(&change);
            }
        }
    }
}
