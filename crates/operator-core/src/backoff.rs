//! Exponential backoff, per object and per watch.

use std::{collections::HashMap, time::Duration};

use kube::runtime::utils::Backoff;
use tokio::time::Instant;

use crate::kind::ObjectKey;

/// Delay after the first failure of an object.
const INITIAL_DELAY: Duration = Duration::from_secs(1);
/// Longest delay between two attempts for an object.
const MAX_DELAY: Duration = Duration::from_mins(5);

/// Exponential backoff per object: 1 s, 2 s, 4 s, up to 5 min.
///
/// Jitter shortens each delay by up to a fifth, so that objects that failed together do not retry
/// together. Only retries count. An object that fails again because of another change keeps the
/// time of its next retry, so frequent changes do not postpone it.
#[derive(Default)]
pub(crate) struct ObjectBackoff {
    entries: HashMap<ObjectKey, Entry>,
}

struct Entry {
    failures: u32,
    retry_at: Instant,
}

impl ObjectBackoff {
    /// Records a failure and returns the delay before the next attempt.
    pub(crate) fn failed(&mut self, key: &ObjectKey, now: Instant) -> Duration {
        let entry = self.entries.entry(key.clone()).or_insert(Entry { failures: 0, retry_at: now });
        if entry.retry_at <= now {
            entry.retry_at = now + delay(entry.failures, fastrand::f64());
            entry.failures = entry.failures.saturating_add(1);
        }
        entry.retry_at.duration_since(now)
    }

    /// Clears the failures of an object.
    pub(crate) fn reset(&mut self, key: &ObjectKey) {
        self.entries.remove(key);
    }

    /// Returns the number of failed attempts for an object.
    pub(crate) fn failures(&self, key: &ObjectKey) -> u32 {
        self.entries.get(key).map(|entry| entry.failures).unwrap_or_default()
    }
}

/// Returns the delay after `failures` earlier failures. `jitter` is between 0 and 1.
fn delay(failures: u32, jitter: f64) -> Duration {
    let wait = INITIAL_DELAY.saturating_mul(2_u32.saturating_pow(failures)).min(MAX_DELAY);
    wait.mul_f64(1.0 - 0.2 * jitter)
}

/// Exponential backoff for a watch or another single task.
///
/// Each delay is twice the previous one. Jitter shortens it by up to a fifth. A success resets it.
#[derive(Debug)]
pub struct WatchBackoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl WatchBackoff {
    /// Returns a backoff that starts with `first` and grows up to `longest`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let wait = self.next;
        self.next = self.next.saturating_mul(2).min(self.longest);
        Some(wait.mul_f64(1.0 - 0.2 * fastrand::f64()))
    }
}

impl Backoff for WatchBackoff {
    fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_doubles_up_to_five_minutes() {
        let waits: Vec<_> = (0..10).map(|failures| delay(failures, 0.0).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert_eq!(delay(u32::MAX, 0.0), MAX_DELAY);
    }

    #[test]
    fn jitter_shortens_by_a_fifth_at_most() {
        assert_eq!(delay(9, 1.0), Duration::from_mins(4));
    }

    #[test]
    fn success_resets_the_delay() {
        let (key, now) = (ObjectKey::cluster("a"), Instant::now());
        let mut backoff = ObjectBackoff::default();
        let first = backoff.failed(&key, now);
        let second = backoff.failed(&key, now + first);
        assert!(second > INITIAL_DELAY);
        assert_eq!(backoff.failures(&key), 2);
        backoff.reset(&key);
        assert!(backoff.failed(&key, now) <= INITIAL_DELAY);
    }

    #[test]
    fn failure_before_the_retry_does_not_postpone_it() {
        let (key, now) = (ObjectKey::cluster("a"), Instant::now());
        let mut backoff = ObjectBackoff::default();
        let wait = backoff.failed(&key, now);
        let later = Duration::from_millis(100);
        assert_eq!(backoff.failed(&key, now + later) + later, wait);
        assert_eq!(backoff.failures(&key), 1);
    }
}
