//! The work queue of a controller: the keys of objects to reconcile.
//!
//! A timer adds a delayed key, like `AddAfter` of client-go's delaying queue.
//!
//! # Guarantees
//! - One worker at a time processes a key. A key that is added while it is processed is returned
//!   again afterwards.
//! - Several additions of a key that is already queued count as one.
//! - Changes come before retries and timers, each in order of arrival.
//! - A key has at most one timer: the one that its last reconcile requested.
//! - Keys wait until their namespace is open.
//! - A paused queue stores nothing, so a standby replica does not collect changes.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use crate::kind::ObjectKey;

/// Namespaces whose objects can be reconciled because all informers have synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncedNamespaces {
    /// All namespaces, and cluster-scoped objects.
    All,
    /// Only these namespaces.
    Only(HashSet<Arc<str>>),
}

impl SyncedNamespaces {
    fn none() -> Self {
        Self::Only(HashSet::new())
    }

    fn is_none(&self) -> bool {
        matches!(self, Self::Only(names) if names.is_empty())
    }

    fn contains(&self, key: &ObjectKey) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => key.namespace().is_some_and(|name| names.contains(name)),
        }
    }
}

/// Keys of objects to reconcile. The default queue is open for all namespaces.
#[derive(Default)]
pub struct Queue {
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    paused: bool,
    open: SyncedNamespaces,
    /// Keys whose namespace is not open.
    blocked: HashSet<ObjectKey>,
    changes: VecDeque<ObjectKey>,
    retries: VecDeque<ObjectKey>,
    /// Keys in `changes` or `retries`, and since when.
    queued: HashMap<ObjectKey, Instant>,
    processing: HashSet<ObjectKey>,
    /// Keys that were added while they were processed.
    dirty: HashSet<ObjectKey>,
    timers: BTreeSet<(Instant, ObjectKey)>,
    timer_of: HashMap<ObjectKey, Instant>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            paused: false,
            open: SyncedNamespaces::All,
            blocked: HashSet::new(),
            changes: VecDeque::new(),
            retries: VecDeque::new(),
            queued: HashMap::new(),
            processing: HashSet::new(),
            dirty: HashSet::new(),
            timers: BTreeSet::new(),
            timer_of: HashMap::new(),
        }
    }
}

/// A key that a worker took from the queue.
#[derive(Debug, PartialEq, Eq)]
pub struct QueueItem {
    /// Key of the object to reconcile.
    pub key: ObjectKey,
    /// Time in the queue, without timers.
    pub waited: Duration,
}

/// Keeps a queue running. The queue pauses when the guard is dropped.
#[must_use = "the queue pauses when this is dropped"]
pub struct ResumeGuard(Arc<Queue>);

impl Drop for ResumeGuard {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        let open = std::mem::replace(&mut state.open, SyncedNamespaces::none());
        *state = State { paused: true, open, ..State::default() };
    }
}

impl Queue {
    /// Returns a paused queue that is closed for all namespaces. It ignores keys until it is
    /// resumed.
    pub fn paused() -> Self {
        let queue = Self::closed();
        queue.state.lock().paused = true;
        queue
    }

    /// Accepts keys until the guard is dropped.
    pub fn resume(self: &Arc<Self>) -> ResumeGuard {
        self.state.lock().paused = false;
        ResumeGuard(self.clone())
    }

    /// Returns a queue that is closed for all namespaces.
    pub fn closed() -> Self {
        let state = State { open: SyncedNamespaces::none(), ..State::default() };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    /// Opens the queue for `open`, in addition to the namespaces that are open already.
    pub fn open(&self, open: SyncedNamespaces) {
        let mut state = self.state.lock();
        state.open = match (std::mem::replace(&mut state.open, SyncedNamespaces::none()), open) {
            (SyncedNamespaces::Only(before), SyncedNamespaces::Only(now)) => {
                SyncedNamespaces::Only(before.union(&now).cloned().collect())
            }
            _ => SyncedNamespaces::All,
        };
        for key in std::mem::take(&mut state.blocked) {
            state.add(key);
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Waits until at least one namespace is open. Only the caller of [`Queue::next`] may call it.
    pub async fn wait_open(&self) {
        while self.state.lock().open.is_none() {
            self.changed.notified().await;
        }
    }

    /// Adds the key of a changed object.
    pub fn add(&self, key: ObjectKey) {
        self.state.lock().add(key);
        self.changed.notify_one();
    }

    /// Ends the processing of a key. With `requeue_after`, adds it again after that time.
    ///
    /// If the key was added in the meantime, it is queued immediately.
    pub fn done(&self, key: &ObjectKey, requeue_after: Option<Duration>) {
        let mut state = self.state.lock();
        state.processing.remove(key);
        if let Some(wait) = requeue_after {
            state.set_timer(key.clone(), Instant::now() + wait);
        }
        if state.dirty.remove(key) {
            state.add(key.clone());
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Takes the next key. Waits until there is one. Cancel safe.
    pub async fn next(&self) -> QueueItem {
        loop {
            let next_timer = {
                let mut state = self.state.lock();
                let now = Instant::now();
                state.queue_due_timers(now);
                if let Some(item) = state.pop(now) {
                    return item;
                }
                state.timers.first().map(|(at, _)| *at)
            };
            match next_timer {
                Some(at) => tokio::select! {
                    () = self.changed.notified() => {}
                    () = sleep_until(at) => {}
                },
                None => self.changed.notified().await,
            }
        }
    }

    /// Returns the number of queued keys, without timers.
    pub fn len(&self) -> usize {
        self.state.lock().queued.len()
    }

    /// Returns whether no key is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl State {
    fn add(&mut self, key: ObjectKey) {
        if self.paused {
            // The controller adds all objects when it resumes the queue.
        } else if !self.open.contains(&key) {
            self.blocked.insert(key);
        } else if self.processing.contains(&key) {
            self.dirty.insert(key);
        } else if !self.queued.contains_key(&key) {
            self.queued.insert(key.clone(), Instant::now());
            self.changes.push_back(key);
        }
    }

    fn set_timer(&mut self, key: ObjectKey, at: Instant) {
        self.clear_timer(&key);
        self.timer_of.insert(key.clone(), at);
        self.timers.insert((at, key));
    }

    fn clear_timer(&mut self, key: &ObjectKey) {
        if let Some(at) = self.timer_of.remove(key) {
            self.timers.remove(&(at, key.clone()));
        }
    }

    /// Queues the keys whose timers are due.
    fn queue_due_timers(&mut self, now: Instant) {
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, key)) = self.timers.pop_first() else { return };
            self.timer_of.remove(&key);
            if self.processing.contains(&key) {
                self.dirty.insert(key);
            } else if !self.queued.contains_key(&key) {
                self.queued.insert(key.clone(), now);
                self.retries.push_back(key);
            }
        }
    }

    fn pop(&mut self, now: Instant) -> Option<QueueItem> {
        let key = self.changes.pop_front().or_else(|| self.retries.pop_front())?;
        let since = self.queued.remove(&key).unwrap_or(now);
        self.clear_timer(&key);
        self.processing.insert(key.clone());
        Some(QueueItem { key, waited: now.saturating_duration_since(since) })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::cluster(name)
    }

    fn take(queue: &Queue) -> Option<ObjectKey> {
        queue.next().now_or_never().map(|item| item.key)
    }

    #[tokio::test]
    async fn deduplicates_queued_keys() {
        let queue = Queue::default();
        queue.add(key("a"));
        queue.add(key("a"));
        assert_eq!(take(&queue), Some(key("a")));
        assert_eq!(take(&queue), None);
    }

    #[tokio::test]
    async fn processes_a_key_once_at_a_time_without_losing_changes() {
        let queue = Queue::default();
        queue.add(key("a"));
        assert_eq!(take(&queue), Some(key("a")));
        queue.add(key("a"));
        assert_eq!(take(&queue), None);
        queue.done(&key("a"), None);
        assert_eq!(take(&queue), Some(key("a")));
    }

    #[tokio::test]
    async fn returns_keys_only_after_their_namespace_is_open() {
        let queue = Queue::closed();
        for name in ["a", "b", "c"] {
            queue.add(ObjectKey::namespaced(name, "web"));
        }
        assert_eq!(take(&queue), None);
        assert!(queue.wait_open().now_or_never().is_none());
        queue.open(SyncedNamespaces::Only(["a".into()].into()));
        assert!(queue.wait_open().now_or_never().is_some());
        assert_eq!(take(&queue), Some(ObjectKey::namespaced("a", "web")));
        assert_eq!(take(&queue), None);
        queue.open(SyncedNamespaces::Only(["b".into()].into()));
        assert_eq!(take(&queue), Some(ObjectKey::namespaced("b", "web")));
        queue.add(ObjectKey::namespaced("a", "other"));
        assert_eq!(take(&queue), Some(ObjectKey::namespaced("a", "other")), "namespace a stays open");
        queue.open(SyncedNamespaces::All);
        assert_eq!(take(&queue), Some(ObjectKey::namespaced("c", "web")));
    }

    #[tokio::test]
    async fn returns_changes_before_retries() {
        let queue = Queue::default();
        queue.done(&key("retry"), Some(Duration::ZERO));
        queue.add(key("change"));
        assert_eq!(take(&queue), Some(key("change")));
        assert_eq!(take(&queue), Some(key("retry")));
    }

    #[tokio::test]
    async fn paused_queue_stores_no_keys() {
        let queue = Arc::new(Queue::paused());
        queue.open(SyncedNamespaces::All);
        queue.add(key("before"));
        let resumed = queue.resume();
        assert_eq!(take(&queue), None);
        queue.add(key("a"));
        queue.add(key("b"));
        assert_eq!(take(&queue), Some(key("a")));
        drop(resumed);
        queue.add(key("after"));
        let _resumed = queue.resume();
        assert_eq!((take(&queue), queue.len()), (None, 0));
        queue.add(key("a"));
        assert_eq!(take(&queue), Some(key("a")), "not processed any more, and still open");
    }

    #[tokio::test]
    async fn timer_wakes_a_waiting_worker_when_it_is_due() {
        let (queue, wait) = (Queue::default(), Duration::from_millis(20));
        let start = Instant::now();
        queue.done(&key("a"), Some(wait));
        assert_eq!(take(&queue), None);
        assert_eq!(queue.next().await.key, key("a"));
        assert!(start.elapsed() >= wait);
    }

    #[tokio::test]
    async fn taking_a_key_clears_its_timer() {
        let queue = Queue::default();
        queue.done(&key("a"), Some(Duration::from_millis(1)));
        queue.add(key("a"));
        assert_eq!(take(&queue), Some(key("a")));
        queue.done(&key("a"), None);
        queue.done(&key("b"), Some(Duration::from_millis(20)));
        assert_eq!(queue.next().await.key, key("b"), "the cleared timer of a was due earlier");
    }
}
