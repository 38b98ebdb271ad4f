//! Short-lived cache of review results. Tokens are stored only as a digest.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use axum::http::Method;
use ring::digest::{Context, SHA256};

use super::Verdict;

/// Lifetime of an allowed result. A revoked right ends after this time.
const ALLOWED: Duration = Duration::from_mins(1);
/// Lifetime of a denied result. A granted right takes effect after this time.
const DENIED: Duration = Duration::from_secs(10);
/// Maximum number of results of each sort.
const MAX_ENTRIES: usize = 512;

/// Request to be authorized.
pub(super) struct RequestAttributes<'r> {
    pub(super) token: &'r str,
    pub(super) path: &'r str,
    pub(super) method: &'r Method,
}

/// Digest of a request and its token. The token cannot be recovered from it.
pub(super) type Key = [u8; 32];

impl RequestAttributes<'_> {
    /// HTTP method in lower case, as RBAC names it for non-resource URLs.
    pub(super) fn verb(&self) -> String {
        self.method.as_str().to_ascii_lowercase()
    }

    pub(super) fn key(&self) -> Key {
        let mut context = Context::new(&SHA256);
        for part in [self.method.as_str(), self.path, self.token] {
            context.update(part.as_bytes());
            // A separator that occurs in no part keeps the digests distinct.
            context.update(b"\0");
        }
        let mut key = Key::default();
        key.iter_mut().zip(context.finish().as_ref()).for_each(|(to, from)| *to = *from);
        key
    }
}

/// Cached results. Allowed and denied ones are separate, so that many invalid tokens cannot evict
/// allowed ones.
#[derive(Default)]
pub(super) struct ReviewCache {
    allowed: HashMap<Key, Entry>,
    denied: HashMap<Key, Entry>,
}

struct Entry {
    verdict: Verdict,
    until: Instant,
}

impl ReviewCache {
    pub(super) fn get(&self, key: &Key, now: Instant) -> Option<Verdict> {
        let entry = self.allowed.get(key).or_else(|| self.denied.get(key))?;
        (now < entry.until).then(|| entry.verdict.clone())
    }

    pub(super) fn insert(&mut self, key: Key, verdict: Verdict, now: Instant) {
        self.allowed.remove(&key);
        self.denied.remove(&key);
        let (cache, time) = match verdict {
            Verdict::Allowed => (&mut self.allowed, ALLOWED),
            _ => (&mut self.denied, DENIED),
        };
        evict(cache, now);
        cache.insert(key, Entry { verdict, until: now + time });
    }
}

/// Removes expired results and, if there are still too many, those that expire first.
fn evict(cache: &mut HashMap<Key, Entry>, now: Instant) {
    if cache.len() < MAX_ENTRIES {
        return;
    }
    cache.retain(|_, entry| now < entry.until);
    let first = cache.iter().min_by_key(|(_, entry)| entry.until).map(|(key, _)| *key);
    if let Some(first) = first.filter(|_| cache.len() >= MAX_ENTRIES) {
        cache.remove(&first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(token: &str) -> Key {
        RequestAttributes { token, path: "/metrics", method: &Method::GET }.key()
    }

    #[test]
    fn result_expires() {
        let (mut cache, now) = (ReviewCache::default(), Instant::now());
        cache.insert(key("good"), Verdict::Allowed, now);
        cache.insert(key("bad"), Verdict::Unknown, now);
        assert_eq!(cache.get(&key("good"), now + ALLOWED.mul_f64(0.99)), Some(Verdict::Allowed));
        assert_eq!(cache.get(&key("good"), now + ALLOWED), None);
        assert_eq!(cache.get(&key("bad"), now + DENIED.mul_f64(0.99)), Some(Verdict::Unknown));
        assert_eq!(cache.get(&key("bad"), now + DENIED), None);
    }

    #[test]
    fn result_applies_to_one_token_path_and_method() {
        let (mut cache, now) = (ReviewCache::default(), Instant::now());
        cache.insert(key("token"), Verdict::Allowed, now);
        for (token, path, method) in [
            ("token", "/debug/log-level", Method::GET),
            ("token", "/metrics", Method::PUT),
            ("another", "/metrics", Method::GET),
            ("etricstoken", "/m", Method::GET),
        ] {
            let other = RequestAttributes { token, path, method: &method }.key();
            assert_eq!(cache.get(&other, now), None, "{method} {path} {token}");
        }
    }

    #[test]
    fn newer_result_replaces_older_one() {
        let (mut cache, now) = (ReviewCache::default(), Instant::now());
        cache.insert(key("a"), Verdict::Unknown, now);
        cache.insert(key("a"), Verdict::Allowed, now);
        assert_eq!(cache.get(&key("a"), now), Some(Verdict::Allowed));
        cache.insert(key("a"), Verdict::Unknown, now);
        assert_eq!(cache.get(&key("a"), now), Some(Verdict::Unknown));
    }

    #[test]
    fn invalid_tokens_do_not_evict_allowed_results() {
        let (mut cache, now) = (ReviewCache::default(), Instant::now());
        cache.insert(key("good"), Verdict::Allowed, now);
        for number in 0..10 * MAX_ENTRIES {
            cache.insert(key(&number.to_string()), Verdict::Unknown, now);
        }
        assert_eq!(cache.denied.len(), MAX_ENTRIES);
        assert_eq!(cache.get(&key("good"), now), Some(Verdict::Allowed));
        let newest = key(&(10 * MAX_ENTRIES - 1).to_string());
        assert_eq!(cache.get(&newest, now), Some(Verdict::Unknown));
    }
}
