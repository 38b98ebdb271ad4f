//! Limits for each user, so that one user leaves something for the others.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use parking_lot::Mutex;

/// Limit of concurrent requests for each key.
pub struct ConcurrencyLimit<K> {
    limit: usize,
    counts: Arc<Mutex<HashMap<K, usize>>>,
}

/// Permit for one request. Dropping it ends the request.
pub struct Permit<K: Eq + Hash> {
    key: K,
    counts: Arc<Mutex<HashMap<K, usize>>>,
}

impl<K: Clone + Eq + Hash> ConcurrencyLimit<K> {
    /// Allows this number of requests at once for each key.
    pub fn new(limit: usize) -> Self {
        Self { limit, counts: Arc::default() }
    }

    /// Returns a permit for a request, or `None` if there are too many.
    pub fn try_acquire(&self, key: K) -> Option<Permit<K>> {
        let mut counts = self.counts.lock();
        let count = counts.entry(key.clone()).or_default();
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        Some(Permit { key, counts: self.counts.clone() })
    }
}

impl<K: Eq + Hash> Drop for Permit<K> {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_is_for_each_key_and_leaves_nothing_behind() {
        let requests = ConcurrencyLimit::new(2);
        let first = requests.try_acquire("alice").unwrap();
        let second = requests.try_acquire("alice").unwrap();
        assert!(requests.try_acquire("alice").is_none());
        let other = requests.try_acquire("bob");
        assert!(other.is_some());
        drop(first);
        let third = requests.try_acquire("alice");
        assert!(third.is_some() && requests.try_acquire("alice").is_none());
        drop((second, third, other));
        assert!(requests.counts.lock().is_empty());
    }
}
