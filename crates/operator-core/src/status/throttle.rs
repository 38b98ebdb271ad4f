//! Throttling of status writes: how soon the next one of an object may follow.

use std::{collections::HashMap, time::Duration};

use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::{conditions::READY, kind::ObjectKey};

/// Minimum time between two status writes of one object. A status write costs the API server more
/// than the creation of a Pod.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
/// Minimum time before a write that only reports progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum time before a write that only reports progress towards the condition `Ready`, which another write follows.
const UNREADY_INTERVAL: Duration = Duration::from_secs(3);
/// The same for each object that is on its way to `Ready`, so that all of them together write five times a second.
const UNREADY_SHARE: Duration = Duration::from_millis(200);
/// The same with any number of objects.
const MAX_INTERVAL: Duration = Duration::from_mins(1);
/// Time between two looks for objects whose last write no longer matters.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// The last status writes of the objects of a kind.
#[derive(Default)]
pub(super) struct Throttle {
    written: HashMap<ObjectKey, Last>,
    /// Number of objects in `written` that are not ready.
    unready: u32,
    swept: Option<Instant>,
}

/// The last status write of an object.
struct Last {
    at: Instant,
    is_unready: bool,
}

/// A status write that is about to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Write {
    is_progress: bool,
    /// Whether the condition `Ready` is false after the write.
    is_unready: bool,
}

impl Write {
    /// Returns the write that changes a status to the next one.
    pub(super) fn between<S: Serialize>(before: Option<&S>, next: &S) -> Self {
        let next = significant_part(next);
        let is_progress = before.is_some_and(|before| significant_part(before) == next);
        Self { is_progress, is_unready: is_unready(&next) }
    }
}

impl Throttle {
    /// Returns how long a status write of the object must wait. Returns `None` and counts the write
    /// if it can be sent now.
    pub(super) fn delay(&mut self, key: &ObjectKey, write: Write, now: Instant) -> Option<Duration> {
        if self.swept.is_none_or(|swept| now.duration_since(swept) >= SWEEP_INTERVAL) {
            self.sweep(now);
        }
        let interval = self.interval(write);
        let wait = self.written.get(key).map(|last| interval.saturating_sub(now.duration_since(last.at)));
        if let Some(wait) = wait.filter(|wait| !wait.is_zero()) {
            return Some(wait);
        }
        let before = self.written.insert(key.clone(), Last { at: now, is_unready: write.is_unready });
        self.unready += u32::from(write.is_unready);
        self.unready -= u32::from(before.is_some_and(|before| before.is_unready));
        None
    }

    /// Returns the minimum time between the last write of an object and this one.
    fn interval(&self, write: Write) -> Duration {
        match write {
            Write { is_progress: false, .. } => MIN_INTERVAL,
            Write { is_unready: false, .. } => PROGRESS_INTERVAL,
            _ => (UNREADY_SHARE * self.unready).clamp(UNREADY_INTERVAL, MAX_INTERVAL),
        }
    }

    fn sweep(&mut self, now: Instant) {
        self.written.retain(|_, last| now.duration_since(last.at) < MAX_INTERVAL);
        let unready = self.written.values().filter(|last| last.is_unready).count();
        self.unready = u32::try_from(unready).unwrap_or(u32::MAX);
        self.swept = Some(now);
    }
}

/// Returns whether the condition `Ready` of a status is false.
fn is_unready(status: &Value) -> bool {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == READY && condition["status"] == "False")
}

/// Returns the part of a status that is more than progress: without numbers, lists of names, and
/// messages and reasons of conditions.
fn significant_part(status: &impl Serialize) -> Value {
    let mut status = serde_json::to_value(status).unwrap_or_default();
    for (field, value) in status.as_object_mut().into_iter().flatten() {
        match value {
            Value::Number(_) if field != "observedGeneration" => *value = Value::Null,
            Value::Array(items) if field == "conditions" => {
                for condition in items.iter_mut().filter_map(Value::as_object_mut) {
                    condition.retain(|field, _| field == "type" || field == "status");
                }
            }
            Value::Array(items) if items.iter().all(Value::is_string) => *value = Value::Null,
            _ => {}
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_names_and_messages_are_progress() {
        let status = |ready: &str, message: &str, generation: i64, pods: i32, hook: &str| {
            let condition = json!({ "type": "Ready", "status": ready, "message": message });
            let names: Vec<_> = (0..pods).map(|number| format!("pod-{number}")).collect();
            json!({
                "observedGeneration": generation, "replicas": pods, "podNames": names, "conditions": [condition],
                "hooks": [{ "state": hook }],
            })
        };
        let unready = status("False", "0 of 3", 1, 0, "Pending");
        let ready = status("True", "all", 1, 3, "Pending");
        let write = |is_progress, is_unready| Write { is_progress, is_unready };
        let further = status("False", "2 of 3", 1, 2, "Pending");
        assert_eq!(Write::between(Some(&unready), &further), write(true, true));
        assert_eq!(Write::between(Some(&ready), &status("True", "all", 1, 4, "Pending")), write(true, false));
        for next in [
            ready,
            status("False", "0 of 3", 2, 0, "Pending"),
            status("False", "0 of 3", 1, 0, "Calling"),
            json!({}),
        ] {
            assert!(!Write::between(Some(&unready), &next).is_progress, "{next}");
        }
        assert_eq!(Write::between(None, &unready), write(false, true));
    }

    const PROGRESS: Write = Write { is_progress: true, is_unready: true };
    const NEW: Write = Write { is_progress: false, is_unready: true };
    const READY_NOW: Write = Write { is_progress: false, is_unready: false };

    fn key(number: u32) -> ObjectKey {
        ObjectKey::namespaced("shop", &number.to_string())
    }

    /// Returns after which time progress of one of this many objects is written, whose statuses say that they are not
    /// ready.
    fn progress_of_one_of(objects: u32) -> Duration {
        let (mut throttle, began) = (Throttle::default(), Instant::now());
        for number in 0..objects {
            assert_eq!(throttle.delay(&key(number), NEW, began), None);
        }
        let wait = throttle.delay(&key(0), PROGRESS, began).unwrap();
        assert_eq!(throttle.delay(&key(0), PROGRESS, began + wait), None);
        wait
    }

    #[test]
    fn progress_of_many_objects_is_written_five_times_a_second() {
        let seconds = |objects| progress_of_one_of(objects).as_secs();
        assert_eq!([1, 15, 100, 300, 3000].map(seconds), [3, 3, 20, 60, 60]);
    }

    #[test]
    fn what_is_no_progress_does_not_wait_for_others() {
        let (mut throttle, began) = (Throttle::default(), Instant::now());
        for number in 0..300 {
            assert_eq!(throttle.delay(&key(number), NEW, began), None);
        }
        assert_eq!(throttle.delay(&key(0), READY_NOW, began), Some(MIN_INTERVAL));
        // Objects that have become ready do not make the others wait.
        for number in 0..299 {
            assert_eq!(throttle.delay(&key(number), READY_NOW, began + MIN_INTERVAL), None);
        }
        assert_eq!(throttle.delay(&key(299), PROGRESS, began + UNREADY_INTERVAL), None);
    }

    #[test]
    fn last_writes_are_forgotten() {
        let (mut throttle, began) = (Throttle::default(), Instant::now());
        for number in 0..300 {
            assert_eq!(throttle.delay(&key(number), NEW, began), None);
        }
        assert_eq!(throttle.delay(&key(300), NEW, began + MAX_INTERVAL), None);
        assert_eq!((throttle.written.len(), throttle.unready), (1, 1));
    }
}
