//! How long to wait before trying again.

use std::{collections::HashMap, time::Duration};

use kube::runtime::utils::Backoff;
use tokio::time::Instant;

use crate::kind::ObjectKey;

/// The wait after the first failure of an object.
const FIRST: Duration = Duration::from_secs(1);
/// The longest wait between two attempts at an object.
const LONGEST: Duration = Duration::from_mins(5);

/// Exponential backoff for each object by itself: 1 s, 2 s, 4 s, ... 5 min, each with up to a fifth of jitter
/// so that objects that failed together do not come back together.
///
/// Only retries count. An object that fails again because something else changed meanwhile keeps the time of its
/// next retry: a busy object must not be put off further and further.
#[derive(Default)]
pub(crate) struct ObjectBackoff {
    failing: HashMap<ObjectKey, Failing>,
}

struct Failing {
    failures: u32,
    retry_at: Instant,
}

impl ObjectBackoff {
    /// Takes in a failure and says how long to wait.
    pub(crate) fn failed(&mut self, key: &ObjectKey, now: Instant) -> Duration {
        let failing = self.failing.entry(key.clone()).or_insert(Failing { failures: 0, retry_at: now });
        if failing.retry_at <= now {
            failing.retry_at = now + delay(failing.failures, fastrand::f64());
            failing.failures = failing.failures.saturating_add(1);
        }
        failing.retry_at.duration_since(now)
    }

    /// Forgets the failures of an object, after a success or its end.
    pub(crate) fn reset(&mut self, key: &ObjectKey) {
        self.failing.remove(key);
    }

    /// How often the object was tried again in vain, the first failure included.
    pub(crate) fn failures(&self, key: &ObjectKey) -> u32 {
        self.failing.get(key).map(|failing| failing.failures).unwrap_or_default()
    }
}

/// The wait after `failures` earlier failures; `jitter` lies between 0 and 1.
fn delay(failures: u32, jitter: f64) -> Duration {
    let wait = FIRST.saturating_mul(2_u32.saturating_pow(failures)).min(LONGEST);
    wait.mul_f64(1.0 - 0.2 * jitter)
}

/// Exponential backoff for a watch, or for anything else of which there is one: each wait twice as long as the one
/// before, with up to a fifth of jitter. Starts anew after each success.
#[derive(Debug)]
pub struct WatchBackoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl WatchBackoff {
    /// Begins with `first` and goes up to `longest`.
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
    fn waits_double_up_to_five_minutes() {
        let waits: Vec<_> = (0..10).map(|failures| delay(failures, 0.0).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert_eq!(delay(u32::MAX, 0.0), LONGEST);
    }

    #[test]
    fn jitter_only_shortens_and_by_a_fifth_at_most() {
        assert_eq!(delay(9, 1.0), Duration::from_mins(4));
    }

    #[test]
    fn a_success_starts_the_waits_anew() {
        let (key, now) = (ObjectKey::cluster("a"), Instant::now());
        let mut backoff = ObjectBackoff::default();
        let first = backoff.failed(&key, now);
        let second = backoff.failed(&key, now + first);
        assert!(second > FIRST);
        assert_eq!(backoff.failures(&key), 2);
        backoff.reset(&key);
        assert!(backoff.failed(&key, now) <= FIRST);
    }

    #[test]
    fn failures_before_the_retry_do_not_put_it_off() {
        let (key, now) = (ObjectKey::cluster("a"), Instant::now());
        let mut backoff = ObjectBackoff::default();
        let wait = backoff.failed(&key, now);
        let later = Duration::from_millis(100);
        assert_eq!(backoff.failed(&key, now + later) + later, wait);
        assert_eq!(backoff.failures(&key), 1);
    }
}
