//! Rate limits for each Tenant. Pure.

use std::{collections::HashMap, hash::Hash, time::Duration};

use operator_core::rate_limit::{Rate, TokenBucket};

/// One token bucket for each key, and one for all keys together.
#[derive(Debug)]
pub(super) struct KeyedBuckets<K> {
    each: Rate,
    all: Rate,
    by_key: HashMap<K, TokenBucket>,
    shared: TokenBucket,
}

impl<K: Eq + Hash> KeyedBuckets<K> {
    pub(super) fn new(each: Rate, all: Rate) -> Self {
        Self { each, all, by_key: HashMap::new(), shared: TokenBucket::default() }
    }

    /// Takes a token of the key and a shared token. Returns whether both were available. Removes
    /// keys whose bucket is full.
    pub(super) fn take(&mut self, key: K, now: Duration) -> bool {
        self.by_key.retain(|_, bucket| !bucket.is_full(now));
        self.by_key.entry(key).or_default().take(self.each, now).is_ok()
            && self.shared.take(self.all, now).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const RATE: Rate = Rate { burst: 3, interval: SECOND };

    #[test]
    fn limits_each_key_and_all_keys_together() {
        let all = Rate { burst: 4, interval: SECOND };
        let (mut buckets, now) = (KeyedBuckets::new(RATE, all), Duration::from_hours(1));
        let mut taken = |key: &'static str| (0..10).filter(|_| buckets.take(key, now)).count();
        assert_eq!((taken("oil"), taken("gas"), taken("coal")), (3, 1, 0));
        let later = now + 100 * SECOND;
        assert!(buckets.take("oil", later));
        assert_eq!(buckets.by_key.len(), 1, "full buckets are removed");
    }
}
