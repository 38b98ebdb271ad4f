//! Usage that was admitted but is not in the cache yet. Pure.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use operator_core::{ObjectKey, quantity::Quantity};

use crate::quota::Resources;

/// How long an admitted usage counts if it does not appear in the cache. The API server may have
/// dropped the write because of a conflict, or because another webhook denied it.
const EXPIRY: Duration = Duration::from_secs(2);

/// Usage in the status of a ResourceQuota.
pub(super) struct QuotaUsage<'q> {
    pub(super) quota: ObjectKey,
    /// The resource version of the ResourceQuota.
    pub(super) version: u64,
    pub(super) used: &'q Resources,
}

/// A resource whose shared quota would be exceeded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct QuotaExceeded {
    pub(super) resource: String,
    pub(super) limit: String,
    /// The total usage of all namespaces without the request.
    pub(super) used: String,
    /// The total usage of all namespaces with the request.
    pub(super) requested: String,
}

/// Admitted usage by ResourceQuota, for all Tenants.
#[derive(Default)]
pub(super) struct PendingAdmissions(HashMap<ObjectKey, PendingAdmission>);

struct PendingAdmission {
    used: Resources,
    /// The resource version that the write replaces. The cache contains the write, or a later one,
    /// once it has a higher version.
    replaced: u64,
    expires: Instant,
}

impl PendingAdmissions {
    /// Replaces the usage `current` by `requested` if the total usage stays within `hard`. Usage
    /// that does not increase is always admitted.
    pub(super) fn admit(
        &mut self,
        hard: &Resources,
        current: &QuotaUsage<'_>,
        requested: &Resources,
        others: &[QuotaUsage<'_>],
        now: Instant,
    ) -> Result<(), QuotaExceeded> {
        self.0.retain(|_, admitted| now < admitted.expires);
        for (resource, limit) in hard {
            let (before, after) = (quantity(current.used, resource), quantity(requested, resource));
            let Ok(limit) = Quantity::try_from(limit) else { continue };
            if after <= before {
                continue;
            }
            let others = others.iter().map(|other| self.used(other, resource));
            let others = others.fold(Quantity::ZERO, Quantity::saturating_add);
            let total = others.saturating_add(after);
            if total > limit {
                return Err(QuotaExceeded {
                    resource: resource.clone(),
                    limit: limit.to_string(),
                    used: others.saturating_add(before).to_string(),
                    requested: total.to_string(),
                });
            }
        }
        let admitted =
            PendingAdmission { used: requested.clone(), replaced: current.version, expires: now + EXPIRY };
        self.0.insert(current.quota.clone(), admitted);
        Ok(())
    }

    /// Returns the cached usage of a ResourceQuota, or the pending one if it is higher.
    fn used(&self, usage: &QuotaUsage<'_>, resource: &str) -> Quantity {
        let cached = quantity(usage.used, resource);
        match self.0.get(&usage.quota).filter(|admitted| usage.version <= admitted.replaced) {
            Some(admitted) => cached.max(quantity(&admitted.used, resource)),
            None => cached,
        }
    }
}

/// Returns the usage of a resource, or zero if it is missing or invalid. The API server writes only
/// valid quantities.
fn quantity(used: &Resources, resource: &str) -> Quantity {
    used.get(resource).and_then(|used| Quantity::try_from(used).ok()).unwrap_or(Quantity::ZERO)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

    use super::*;

    fn pods(count: u32) -> Resources {
        [("pods".to_owned(), ApiQuantity(count.to_string()))].into()
    }

    fn usage<'q>(namespace: &str, version: u64, used: &'q Resources) -> QuotaUsage<'q> {
        QuotaUsage { quota: ObjectKey::namespaced(namespace, "q"), version, used }
    }

    /// Requests usage in namespace a while namespace b has another usage.
    fn admit(
        pending: &mut PendingAdmissions,
        from: u32,
        to: u32,
        b: (u64, u32),
        now: Instant,
    ) -> Result<(), QuotaExceeded> {
        let (current, requested, other) = (pods(from), pods(to), pods(b.1));
        pending.admit(&pods(5), &usage("a", 1, &current), &requested, &[usage("b", b.0, &other)], now)
    }

    #[test]
    fn admits_usage_up_to_the_limit() {
        let now = Instant::now();
        let mut pending = PendingAdmissions::default();
        assert_eq!(admit(&mut pending, 1, 2, (1, 3), now), Ok(()));
        let exceeded = admit(&mut pending, 2, 3, (1, 3), now).unwrap_err();
        assert_eq!(
            exceeded,
            QuotaExceeded {
                resource: "pods".into(),
                limit: "5".into(),
                used: "5".into(),
                requested: "6".into()
            }
        );
    }

    #[test]
    fn admits_usage_that_does_not_increase() {
        let mut pending = PendingAdmissions::default();
        assert_eq!(admit(&mut pending, 9, 8, (1, 9), Instant::now()), Ok(()));
        assert_eq!(admit(&mut pending, 9, 9, (1, 9), Instant::now()), Ok(()));
    }

    #[test]
    fn counts_pending_usage_until_it_is_cached_or_expires() {
        let now = Instant::now();
        let mut pending = PendingAdmissions::default();
        let (none, four) = (pods(0), pods(4));
        let admitted = pending.admit(&pods(5), &usage("b", 7, &none), &four, &[], now);
        assert_eq!(admitted, Ok(()));
        // The cache still contains the old state of b.
        assert!(admit(&mut pending, 0, 2, (7, 0), now).is_err());
        // The cache contains a later state of b with less usage.
        assert_eq!(admit(&mut pending, 0, 2, (9, 2), now), Ok(()));
        // The write was dropped.
        let later = now + Duration::from_secs(3);
        assert_eq!(admit(&mut pending, 0, 2, (7, 0), later), Ok(()));
    }
}
