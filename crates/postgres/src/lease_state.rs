//! The Lease of a primary, as decisions see it. Pure.

use std::time::Duration;

use lease::LeaseRecord;

/// The Lease of a primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseState {
    /// Time until it expires. Zero: nobody holds it.
    pub(crate) expires_in: Duration,
    /// Its version, if it has expired.
    pub(crate) expired: Option<String>,
}

impl LeaseState {
    /// Returns the state of a Lease that is held for this time.
    pub(crate) fn held(expires_in: Duration) -> Self {
        Self { expires_in, expired: None }
    }

    /// Returns the state of a Lease that has not changed for a time. Returns `None` if the primary would
    /// lose its place: the cache can be older than the report of a primary that has just acquired the
    /// Lease, so the API server is asked first.
    pub(crate) fn by_cache(
        known: &LeaseRecord,
        duration: Duration,
        unchanged: Duration,
        has_primary: bool,
    ) -> Option<Self> {
        let remaining = if known.free { Duration::ZERO } else { duration.saturating_sub(unchanged) };
        let needs_no_proof = !remaining.is_zero() || (known.free && !has_primary);
        needs_no_proof.then(|| Self::held(remaining))
    }

    /// Returns the state of a Lease that looks free or expired, and that the API server has like this.
    pub(crate) fn by_api_server(
        known: LeaseRecord,
        duration: Duration,
        latest: Option<&LeaseRecord>,
    ) -> Self {
        let is_stale = latest.is_none_or(|latest| latest.version != known.version);
        match known {
            _ if is_stale => Self::held(duration),
            LeaseRecord { free: true, .. } => Self::held(Duration::ZERO),
            LeaseRecord { version, .. } => Self { expires_in: Duration::ZERO, expired: Some(version) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DURATION: Duration = Duration::from_secs(15);

    fn record(version: &str, holder: &str) -> LeaseRecord {
        LeaseRecord {
            version: version.into(),
            holder: holder.into(),
            duration: DURATION,
            free: holder.is_empty(),
        }
    }

    #[test]
    fn held_lease_expires_when_it_was_not_renewed() {
        let held = record("1", "db-1");
        let state = |seconds| LeaseState::by_cache(&held, DURATION, Duration::from_secs(seconds), true);
        assert_eq!(state(5), Some(LeaseState::held(Duration::from_secs(10))));
        assert_eq!(state(15), None);
        let expired = LeaseState::by_api_server(held.clone(), DURATION, Some(&held));
        assert_eq!((expired.expires_in, expired.expired.as_deref()), (Duration::ZERO, Some("1")));
    }

    #[test]
    fn stale_cache_takes_no_primary_its_place() {
        let (free, acquired) = (record("1", ""), record("2", "db-1"));
        assert_eq!(LeaseState::by_cache(&free, DURATION, Duration::ZERO, true), None);
        assert_eq!(
            LeaseState::by_cache(&free, DURATION, Duration::ZERO, false),
            Some(LeaseState::held(Duration::ZERO)),
            "nobody loses anything"
        );
        for stale in [free.clone(), record("1", "db-2")] {
            let state = |latest| LeaseState::by_api_server(stale.clone(), DURATION, latest);
            assert_eq!(state(Some(&acquired)), LeaseState::held(DURATION));
            assert_eq!(state(None), LeaseState::held(DURATION), "it was deleted, and is created again");
        }
        let confirmed = LeaseState::by_api_server(free.clone(), DURATION, Some(&free));
        assert_eq!(confirmed, LeaseState::held(Duration::ZERO));
    }
}
