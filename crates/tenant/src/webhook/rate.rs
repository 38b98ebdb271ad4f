//! Limits of how often something is done. Pure.

use std::{
    collections::HashMap,
    hash::Hash,
    time::{Duration, Instant},
};

/// How often something may be done: so many times at once, and from then on once in each interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    pub(super) burst: u32,
    pub(super) interval: Duration,
}

/// Tokens that are spent at a [`Rate`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bucket {
    /// When all tokens are back. `None`: none was ever taken.
    full: Option<Instant>,
}

impl Bucket {
    /// Takes a token. Returns whether there was one.
    pub(super) fn take(&mut self, rate: Rate, now: Instant) -> bool {
        let full = self.full.map_or(now, |full| full.max(now));
        let next = full + rate.interval;
        let is_left = next - now <= rate.interval * rate.burst;
        if is_left {
            self.full = Some(next);
        }
        is_left
    }

    fn is_full(&self, now: Instant) -> bool {
        self.full.is_none_or(|full| full <= now)
    }
}

/// Tokens for each key, and for all keys together.
#[derive(Debug)]
pub(super) struct KeyedBuckets<K> {
    each: Rate,
    all: Rate,
    by_key: HashMap<K, Bucket>,
    shared: Bucket,
}

impl<K: Eq + Hash> KeyedBuckets<K> {
    pub(super) fn new(each: Rate, all: Rate) -> Self {
        Self { each, all, by_key: HashMap::new(), shared: Bucket::default() }
    }

    /// Takes a token of the key and one of all. Returns whether there was one of both. Keys whose tokens are all back are
    /// forgotten.
    pub(super) fn take(&mut self, key: K, now: Instant) -> bool {
        self.by_key.retain(|_, bucket| !bucket.is_full(now));
        self.by_key.entry(key).or_default().take(self.each, now) && self.shared.take(self.all, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const RATE: Rate = Rate { burst: 3, interval: SECOND };

    #[test]
    fn a_burst_is_taken_at_once_and_then_one_each_interval() {
        let (mut bucket, now) = (Bucket::default(), Instant::now());
        let taken = |bucket: &mut Bucket, at: Instant| (0..10).filter(|_| bucket.take(RATE, at)).count();
        assert_eq!(taken(&mut bucket, now), 3);
        assert_eq!(taken(&mut bucket, now + SECOND / 2), 0);
        assert_eq!(taken(&mut bucket, now + SECOND), 1);
        assert_eq!(taken(&mut bucket, now + 3 * SECOND), 2);
        assert_eq!(taken(&mut bucket, now + 100 * SECOND), 3, "no more than the burst");
    }

    #[test]
    fn each_key_has_tokens_of_its_own_and_all_together_have_a_limit() {
        let all = Rate { burst: 4, interval: SECOND };
        let (mut buckets, now) = (KeyedBuckets::new(RATE, all), Instant::now());
        let mut taken = |key: &'static str| (0..10).filter(|_| buckets.take(key, now)).count();
        assert_eq!((taken("oil"), taken("gas"), taken("coal")), (3, 1, 0));
        let later = now + 100 * SECOND;
        assert!(buckets.take("oil", later));
        assert_eq!(buckets.by_key.len(), 1, "the others are forgotten");
    }
}
