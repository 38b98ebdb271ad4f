//! Usage that was admitted lately and that the cache may not show. Pure.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use operator_core::{ObjectKey, quantity::Quantity};

use crate::quota::Resources;

/// How long an admitted usage counts even if the cache shows less. The cache may lag behind, and
/// the quota controller of Kubernetes lowers a usage when its own cache lacks the new object.
///
/// Objects that were deleted, and writes that failed after the review, count for this time too.
const EXPIRY: Duration = Duration::from_secs(2);

/// Usage in the status of a ResourceQuota.
pub(super) struct QuotaUsage<'q> {
    pub(super) quota: ObjectKey,
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

/// Admitted usage by ResourceQuota, for all Tenants. None of a ResourceQuota's entries is covered
/// by a later one.
#[derive(Default)]
pub(super) struct PendingAdmissions(HashMap<ObjectKey, Vec<PendingAdmission>>);

struct PendingAdmission {
    used: Resources,
    expires: Instant,
}

impl PendingAdmission {
    /// Returns whether a usage is at least as high for each resource.
    fn is_covered_by(&self, used: &Resources) -> bool {
        self.used.iter().all(|(resource, admitted)| quantity_of(admitted) <= quantity(used, resource))
    }
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
        self.0.retain(|_, admissions| {
            admissions.retain(|admitted| now < admitted.expires);
            !admissions.is_empty()
        });
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
        let admissions = self.0.entry(current.quota.clone()).or_default();
        admissions.retain(|admitted| !admitted.is_covered_by(requested));
        admissions.push(PendingAdmission { used: requested.clone(), expires: now + EXPIRY });
        Ok(())
    }

    /// Returns the cached usage of a ResourceQuota, or the highest pending one if it is higher.
    fn used(&self, usage: &QuotaUsage<'_>, resource: &str) -> Quantity {
        let pending = self.0.get(&usage.quota).into_iter().flatten();
        let pending = pending.map(|admitted| quantity(&admitted.used, resource));
        pending.fold(quantity(usage.used, resource), Quantity::max)
    }
}

/// Returns the usage of a resource, or zero if it is missing.
fn quantity(used: &Resources, resource: &str) -> Quantity {
    used.get(resource).map_or(Quantity::ZERO, quantity_of)
}

/// Parses a quantity. An invalid one is zero; the API server writes only valid ones.
fn quantity_of(used: &ApiQuantity) -> Quantity {
    Quantity::try_from(used).unwrap_or(Quantity::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(count: u32) -> Resources {
        [("pods".to_owned(), ApiQuantity(count.to_string()))].into()
    }

    fn usage<'q>(namespace: &str, used: &'q Resources) -> QuotaUsage<'q> {
        QuotaUsage { quota: ObjectKey::namespaced(namespace, "q"), used }
    }

    /// Requests usage in namespace a while namespace b has another usage.
    fn admit(
        pending: &mut PendingAdmissions,
        from: u32,
        to: u32,
        b: u32,
        now: Instant,
    ) -> Result<(), QuotaExceeded> {
        let (current, requested, other) = (pods(from), pods(to), pods(b));
        pending.admit(&pods(5), &usage("a", &current), &requested, &[usage("b", &other)], now)
    }

    #[test]
    fn admits_usage_up_to_the_limit() {
        let now = Instant::now();
        let mut pending = PendingAdmissions::default();
        assert_eq!(admit(&mut pending, 1, 2, 3, now), Ok(()));
        let exceeded = admit(&mut pending, 2, 3, 3, now).unwrap_err();
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
        assert_eq!(admit(&mut pending, 9, 8, 9, Instant::now()), Ok(()));
        assert_eq!(admit(&mut pending, 9, 9, 9, Instant::now()), Ok(()));
    }

    #[test]
    fn counts_pending_usage_until_it_expires() {
        let now = Instant::now();
        let mut pending = PendingAdmissions::default();
        let (none, four) = (pods(0), pods(4));
        assert_eq!(pending.admit(&pods(5), &usage("b", &none), &four, &[], now), Ok(()));
        // The cache lags behind, or the usage was lowered.
        assert!(admit(&mut pending, 0, 2, 0, now).is_err());
        assert!(admit(&mut pending, 0, 2, 3, now + EXPIRY / 2).is_err());
        assert_eq!(admit(&mut pending, 0, 2, 3, now + EXPIRY), Ok(()));
    }

    #[test]
    fn later_admission_of_less_usage_does_not_hide_the_higher_one() {
        let now = Instant::now();
        let mut pending = PendingAdmissions::default();
        let (none, one, three, four) = (pods(0), pods(1), pods(3), pods(4));
        for (current, requested) in [(&three, &four), (&none, &one)] {
            assert_eq!(pending.admit(&pods(5), &usage("b", current), requested, &[], now), Ok(()));
        }
        assert!(admit(&mut pending, 0, 2, 1, now).is_err());
    }

    #[test]
    fn keeps_one_entry_while_usage_rises() {
        let now = Instant::now();
        let mut pending = PendingAdmissions::default();
        for used in 0..5 {
            assert_eq!(admit(&mut pending, used, used + 1, 0, now), Ok(()));
        }
        assert_eq!(pending.0[&ObjectKey::namespaced("a", "q")].len(), 1);
    }
}
