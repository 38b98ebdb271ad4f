//! The work queue of a controller.
//!
//! # Guarantees
//! - An object is handed out to one worker at a time; what is added meanwhile is handed out again after it.
//! - Any number of additions before a hand-out are one.
//! - Fresh changes go before retries and timers, each lane in order of arrival.
//! - An object has at most one timer: the one that its last reconcile asked for.
//! - What is added before its namespace was opened is held back until then.
//! - A paused queue holds nothing, so that a controller that waits for its turn keeps no list of what changed.

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

/// Of which namespaces so much is known that their objects can be reconciled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Open {
    /// Of all, and of cluster-scoped objects.
    Everything,
    /// Of these.
    Namespaces(HashSet<Arc<str>>),
}

impl Open {
    fn nothing() -> Self {
        Self::Namespaces(HashSet::new())
    }

    fn is_nothing(&self) -> bool {
        matches!(self, Self::Namespaces(names) if names.is_empty())
    }

    fn has(&self, key: &ObjectKey) -> bool {
        match self {
            Self::Everything => true,
            Self::Namespaces(names) => key.namespace().is_some_and(|name| names.contains(name)),
        }
    }
}

/// Keys of objects that wait to be reconciled. The default is open.
#[derive(Default)]
pub struct Queue {
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    paused: bool,
    open: Open,
    /// Keys of objects whose namespace is not open.
    held: HashSet<ObjectKey>,
    fresh: VecDeque<ObjectKey>,
    due: VecDeque<ObjectKey>,
    /// Keys in a lane, with the time since when.
    waiting: HashMap<ObjectKey, Instant>,
    working: HashSet<ObjectKey>,
    /// Keys that were added while they were being worked on.
    again: HashSet<ObjectKey>,
    timers: BTreeSet<(Instant, ObjectKey)>,
    timer_of: HashMap<ObjectKey, Instant>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            paused: false,
            open: Open::Everything,
            held: HashSet::new(),
            fresh: VecDeque::new(),
            due: VecDeque::new(),
            waiting: HashMap::new(),
            working: HashSet::new(),
            again: HashSet::new(),
            timers: BTreeSet::new(),
            timer_of: HashMap::new(),
        }
    }
}

/// A key that was handed out, and how long it had waited.
#[derive(Debug, PartialEq, Eq)]
pub struct QueueItem {
    /// The object to reconcile.
    pub key: ObjectKey,
    /// How long it stood in the queue, timers not counted.
    pub waited: Duration,
}

/// Lets a queue take and hand out; pauses it when dropped.
#[must_use = "the queue pauses when this is dropped"]
pub struct Resumed(Arc<Queue>);

impl Drop for Resumed {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        let open = std::mem::replace(&mut state.open, Open::nothing());
        *state = State { paused: true, open, ..State::default() };
    }
}

impl Queue {
    /// A queue that takes nothing until it is resumed, and then holds everything back until it is opened.
    pub fn paused() -> Self {
        let queue = Self::closed();
        queue.state.lock().paused = true;
        queue
    }

    /// Takes what is added from now on.
    pub fn resume(self: &Arc<Self>) -> Resumed {
        self.state.lock().paused = false;
        Resumed(self.clone())
    }

    /// A queue that holds everything back until it is opened.
    pub fn closed() -> Self {
        let state = State { open: Open::nothing(), ..State::default() };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    /// Lets through what belongs to `open`, besides what was opened before.
    pub fn open(&self, open: Open) {
        let mut state = self.state.lock();
        state.open = match (std::mem::replace(&mut state.open, Open::nothing()), open) {
            (Open::Namespaces(before), Open::Namespaces(now)) => {
                Open::Namespaces(before.union(&now).cloned().collect())
            }
            _ => Open::Everything,
        };
        for key in std::mem::take(&mut state.held) {
            state.add_fresh(key);
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Waits until something has been opened. For the one that also calls [`Queue::next`].
    pub async fn opened(&self) {
        while self.state.lock().open.is_nothing() {
            self.changed.notified().await;
        }
    }

    /// Adds an object that changed.
    pub fn add(&self, key: ObjectKey) {
        self.state.lock().add_fresh(key);
        self.changed.notify_one();
    }

    /// Ends the work on a key; `again` asks for it once more after that time. A change that came meanwhile
    /// comes first.
    pub fn done(&self, key: &ObjectKey, again: Option<Duration>) {
        let mut state = self.state.lock();
        state.working.remove(key);
        if let Some(wait) = again {
            state.set_timer(key.clone(), Instant::now() + wait);
        }
        if state.again.remove(key) {
            state.add_fresh(key.clone());
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Waits for the next key. Dropping the future loses nothing.
    pub async fn next(&self) -> QueueItem {
        loop {
            let next_timer = {
                let mut state = self.state.lock();
                let now = Instant::now();
                state.ring(now);
                if let Some(work) = state.hand_out(now) {
                    return work;
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

    /// How many objects wait to be handed out now, timers not counted.
    pub fn len(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl State {
    fn add_fresh(&mut self, key: ObjectKey) {
        if self.paused {
            // Whoever resumes it adds everything.
        } else if !self.open.has(&key) {
            self.held.insert(key);
        } else if self.working.contains(&key) {
            self.again.insert(key);
        } else if !self.waiting.contains_key(&key) {
            self.waiting.insert(key.clone(), Instant::now());
            self.fresh.push_back(key);
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

    /// Moves what is due into its lane.
    fn ring(&mut self, now: Instant) {
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, key)) = self.timers.pop_first() else { return };
            self.timer_of.remove(&key);
            if self.working.contains(&key) {
                self.again.insert(key);
            } else if !self.waiting.contains_key(&key) {
                self.waiting.insert(key.clone(), now);
                self.due.push_back(key);
            }
        }
    }

    fn hand_out(&mut self, now: Instant) -> Option<QueueItem> {
        let key = self.fresh.pop_front().or_else(|| self.due.pop_front())?;
        let since = self.waiting.remove(&key).unwrap_or(now);
        self.clear_timer(&key);
        self.working.insert(key.clone());
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
        queue.next().now_or_never().map(|work| work.key)
    }

    #[tokio::test]
    async fn additions_before_a_hand_out_are_one() {
        let queue = Queue::default();
        queue.add(key("a"));
        queue.add(key("a"));
        assert_eq!(take(&queue), Some(key("a")));
        assert_eq!(take(&queue), None);
    }

    #[tokio::test]
    async fn an_object_is_never_worked_on_twice_at_once_and_no_change_is_lost() {
        let queue = Queue::default();
        queue.add(key("a"));
        assert_eq!(take(&queue), Some(key("a")));
        queue.add(key("a"));
        assert_eq!(take(&queue), None);
        queue.done(&key("a"), None);
        assert_eq!(take(&queue), Some(key("a")));
    }

    #[tokio::test]
    async fn what_is_added_before_its_namespace_is_open_comes_when_it_is() {
        let queue = Queue::closed();
        for name in ["a", "b", "c"] {
            queue.add(ObjectKey::namespaced(name, "web"));
        }
        assert_eq!(take(&queue), None);
        assert!(queue.opened().now_or_never().is_none());
        queue.open(Open::Namespaces(["a".into()].into()));
        assert!(queue.opened().now_or_never().is_some());
        assert_eq!(take(&queue), Some(ObjectKey::namespaced("a", "web")));
        assert_eq!(take(&queue), None);
        queue.open(Open::Namespaces(["b".into()].into()));
        assert_eq!(take(&queue), Some(ObjectKey::namespaced("b", "web")));
        queue.add(ObjectKey::namespaced("a", "other"));
        assert_eq!(take(&queue), Some(ObjectKey::namespaced("a", "other")), "what was opened stays open");
        queue.open(Open::Everything);
        assert_eq!(take(&queue), Some(ObjectKey::namespaced("c", "web")));
    }

    #[tokio::test]
    async fn fresh_changes_go_before_what_is_due() {
        let queue = Queue::default();
        queue.done(&key("late"), Some(Duration::ZERO));
        queue.add(key("fresh"));
        assert_eq!(take(&queue), Some(key("fresh")));
        assert_eq!(take(&queue), Some(key("late")));
    }

    #[tokio::test]
    async fn a_paused_queue_holds_nothing_and_a_resumed_one_nothing_from_before() {
        let queue = Arc::new(Queue::paused());
        queue.open(Open::Everything);
        queue.add(key("early"));
        let resumed = queue.resume();
        assert_eq!(take(&queue), None);
        queue.add(key("in time"));
        queue.add(key("too late"));
        assert_eq!(take(&queue), Some(key("in time")));
        drop(resumed);
        queue.add(key("later"));
        let _resumed = queue.resume();
        assert_eq!((take(&queue), queue.len()), (None, 0));
        queue.add(key("in time"));
        assert_eq!(
            take(&queue),
            Some(key("in time")),
            "nobody works on it any more, and what was open still is"
        );
    }

    #[tokio::test]
    async fn a_timer_wakes_a_waiting_worker_and_not_before_its_time() {
        let (queue, wait) = (Queue::default(), Duration::from_millis(20));
        let began = Instant::now();
        queue.done(&key("a"), Some(wait));
        assert_eq!(take(&queue), None);
        assert_eq!(queue.next().await.key, key("a"));
        assert!(began.elapsed() >= wait);
    }

    #[tokio::test]
    async fn a_hand_out_clears_the_timer_that_was_set_before_it() {
        let queue = Queue::default();
        queue.done(&key("a"), Some(Duration::from_millis(1)));
        queue.add(key("a"));
        assert_eq!(take(&queue), Some(key("a")));
        queue.done(&key("a"), None);
        queue.done(&key("b"), Some(Duration::from_millis(20)));
        assert_eq!(queue.next().await.key, key("b"), "the timer of a was the earlier one");
    }
}
