//! The Lease of a primary, as decisions see it. Pure.

use std::time::Duration;

use lease::LeaseRecord;
use postgres_model::failover::FailoverState;

/// The Lease of a primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseState {
    /// Time until it expires. Zero: nobody holds it.
    pub(crate) expires_in: Duration,
    /// Time since it was renewed. `None` if nobody holds it.
    pub(crate) since_renewal: Option<Duration>,
    /// Its version, if it has expired.
    pub(crate) expired: Option<String>,
    /// The Lease that the cache has, if that is free and the API server was not asked.
    unproven: Option<LeaseRecord>,
}

impl LeaseState {
    /// Returns the state of a Lease of this duration that its holder has renewed this time ago.
    fn renewed(duration: Duration, ago: Duration) -> Self {
        let expires_in = duration.saturating_sub(ago);
        Self { expires_in, since_renewal: Some(ago), expired: None, unproven: None }
    }

    /// Returns the state of a Lease that does not exist. Nobody replaces a primary before it is created, and has aged.
    pub(crate) fn missing(duration: Duration) -> Self {
        Self { since_renewal: None, ..Self::renewed(duration, Duration::ZERO) }
    }

    /// Returns the state of a Lease that nobody holds.
    fn free() -> Self {
        Self { since_renewal: None, ..Self::renewed(Duration::ZERO, Duration::ZERO) }
    }

    /// Returns the state of a Lease that has not changed for a time. Returns `None` if it looks expired:
    /// the cache can be older than the report of a primary that renews it, so the API server is asked.
    ///
    /// A free Lease is [unproven](Self::unproven_for).
    pub(crate) fn by_cache(known: &LeaseRecord, duration: Duration, unchanged: Duration) -> Option<Self> {
        if known.free {
            return Some(Self { unproven: Some(known.clone()), ..Self::free() });
        }
        (unchanged < duration).then(|| Self::renewed(duration, unchanged))
    }

    /// Returns the Lease of the cache if a decision gives up a target while that Lease is free. The target
    /// can have acquired it a moment ago, also one that the same decision confirms as the primary, so the
    /// API server is asked first.
    pub(crate) fn unproven_for(&self, before: &FailoverState, after: &FailoverState) -> Option<&LeaseRecord> {
        let gives_up_target = before.target.is_some() && after.epoch > before.epoch;
        self.unproven.as_ref().filter(|_| gives_up_target)
    }

    /// Returns the state of a Lease that looks free or expired, and that the API server has like this.
    pub(crate) fn by_api_server(
        known: LeaseRecord,
        duration: Duration,
        latest: Option<&LeaseRecord>,
    ) -> Self {
        let is_stale = latest.is_none_or(|latest| latest.version != known.version);
        match known {
            _ if is_stale => Self::renewed(duration, Duration::ZERO),
            LeaseRecord { free: true, .. } => Self::free(),
            LeaseRecord { version, .. } => Self { expired: Some(version), ..Self::free() },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{api::fixture::cluster, membership::Membership};

    const DURATION: Duration = Duration::from_secs(15);

    fn record(version: &str, holder: &str) -> LeaseRecord {
        LeaseRecord {
            version: version.into(),
            holder: holder.into(),
            duration: DURATION,
            free: holder.is_empty(),
            ..LeaseRecord::default()
        }
    }

    #[test]
    fn held_lease_expires_when_it_was_not_renewed() {
        let held = record("1", "db-1");
        let state = |seconds| LeaseState::by_cache(&held, DURATION, Duration::from_secs(seconds));
        assert_eq!(state(5), Some(LeaseState::renewed(DURATION, Duration::from_secs(5))));
        assert_eq!(state(5).unwrap().expires_in, Duration::from_secs(10));
        assert_eq!(state(15), None);
        let expired = LeaseState::by_api_server(held.clone(), DURATION, Some(&held));
        assert_eq!((expired.expires_in, expired.expired.as_deref()), (Duration::ZERO, Some("1")));
    }

    #[test]
    fn stale_cache_takes_no_primary_its_place() {
        let (free, acquired) = (record("1", ""), record("2", "db-1"));
        for stale in [free.clone(), record("1", "db-2")] {
            let state = |latest| LeaseState::by_api_server(stale.clone(), DURATION, latest);
            let renewed = LeaseState::renewed(DURATION, Duration::ZERO);
            assert_eq!(state(Some(&acquired)), renewed);
            assert_eq!(state(None), renewed, "it was deleted, and is created again");
        }
        let confirmed = LeaseState::by_api_server(free.clone(), DURATION, Some(&free));
        assert_eq!(confirmed, LeaseState::free());
    }

    #[test]
    fn free_lease_is_proven_before_a_target_is_given_up() {
        let state = |epoch, target: Option<&str>| FailoverState {
            epoch,
            target: target.map(str::to_owned),
            ..Membership::of(&cluster(&json!({}))).failover
        };
        let cached = |known| LeaseState::by_cache(known, DURATION, Duration::ZERO).unwrap();
        let (free, held) = (record("1", ""), record("1", "db-1"));
        let unproven = |known, target, epoch| {
            let lease = cached(known);
            lease.unproven_for(&state(2, target), &state(epoch, None)).cloned()
        };
        assert!(cached(&free).expires_in.is_zero());
        assert_eq!(unproven(&free, Some("db-1"), 3), Some(free.clone()));
        assert_eq!(unproven(&free, Some("db-1"), 2), None, "nobody loses anything");
        assert_eq!(unproven(&free, None, 3), None, "nobody was chosen");
        assert_eq!(unproven(&held, Some("db-1"), 3), None, "its Pod is gone");
    }
}
