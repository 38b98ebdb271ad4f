//! Usage that was admitted lately and that the cache may not show. Pure.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use operator_core::{ObjectKey, quantity::Quantity};

use crate::quota::Resources;

/// How long an admitted usage counts even if the cache or a recount shows less.
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
/// by a later one, unless a recount has taken something from it.
#[derive(Default)]
pub(super) struct PendingAdmissions(HashMap<ObjectKey, Vec<PendingAdmission>>);

struct PendingAdmission {
    used: Usage,
    /// What recounts have taken from `used` since. It may belong to objects that exist.
    uncounted: Usage,
    expires: Instant,
}

/// Quantities by resource.
type Usage = HashMap<String, Quantity>;

impl PendingAdmission {
    /// Returns whether a usage is at least as high for each resource, and no recount matters.
    ///
    /// The API server can drop the higher usage, because the recount came first.
    fn is_covered_by(&self, used: &Usage) -> bool {
        self.used.iter().all(|(resource, admitted)| *admitted <= of(used, resource))
            && self.uncounted.values().all(|uncounted| *uncounted <= Quantity::ZERO)
    }

    /// Returns how much of a resource a recount has taken, if its result is still in force.
    fn surplus(&self, resource: &str, current: Quantity) -> Quantity {
        let missing = of(&self.used, resource).saturating_sub(current);
        of(&self.uncounted, resource).min(missing).max(Quantity::ZERO)
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
        self.expire(now);
        for (resource, limit) in hard {
            let (before, after) = (quantity(current.used, resource), quantity(requested, resource));
            let Ok(limit) = Quantity::try_from(limit) else { continue };
            if after <= before {
                continue;
            }
            let others = others.iter().map(|other| self.used(other, resource));
            let others = others.fold(self.surplus(current, resource), Quantity::saturating_add);
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
        let surplus = |resource: &str| self.surplus(current, resource);
        let uncounted: Usage = requested.keys().map(|name| (name.clone(), surplus(name))).collect();
        let used = requested
            .iter()
            .map(|(name, used)| (name.clone(), quantity_of(used).saturating_add(of(&uncounted, name))));
        let used: Usage = used.collect();
        let admissions = self.0.entry(current.quota.clone()).or_default();
        admissions.retain(|admitted| !admitted.is_covered_by(&used));
        admissions.push(PendingAdmission { used, uncounted, expires: now + EXPIRY });
        Ok(())
    }

    /// Notes that the quota controller of Kubernetes has counted again.
    ///
    /// Its own cache may lack objects that were admitted lately: the usage is written before the object
    /// is.
    pub(super) fn recount(&mut self, before: &QuotaUsage<'_>, after: &Resources, now: Instant) {
        self.expire(now);
        for admitted in self.0.get_mut(&before.quota).into_iter().flatten() {
            for resource in admitted.used.keys() {
                let taken = quantity(before.used, resource).saturating_sub(quantity(after, resource));
                let uncounted = of(&admitted.uncounted, resource).saturating_add(taken);
                admitted.uncounted.insert(resource.clone(), uncounted.max(Quantity::ZERO));
            }
        }
    }

    fn expire(&mut self, now: Instant) {
        self.0.retain(|_, admissions| {
            admissions.retain(|admitted| now < admitted.expires);
            !admissions.is_empty()
        });
    }

    /// Returns the cached usage of a ResourceQuota, or the highest pending one if it is higher.
    fn used(&self, usage: &QuotaUsage<'_>, resource: &str) -> Quantity {
        let pending = self.pending(usage).map(|admitted| of(&admitted.used, resource));
        pending.fold(quantity(usage.used, resource), Quantity::max)
    }

    /// Returns the usage that is missing in the present status of a ResourceQuota.
    fn surplus(&self, current: &QuotaUsage<'_>, resource: &str) -> Quantity {
        let used = quantity(current.used, resource);
        let pending = self.pending(current).map(|admitted| admitted.surplus(resource, used));
        pending.fold(Quantity::ZERO, Quantity::max)
    }

    fn pending(&self, usage: &QuotaUsage<'_>) -> impl Iterator<Item = &PendingAdmission> {
        self.0.get(&usage.quota).into_iter().flatten()
    }
}

/// Returns the usage of a resource, or zero if it is missing.
fn of(used: &Usage, resource: &str) -> Quantity {
    used.get(resource).copied().unwrap_or(Quantity::ZERO)
}

/// Returns the usage of a resource in a status, or zero if it is missing.
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

    /// The status of namespace a after its usage was counted again.
    fn recount(pending: &mut PendingAdmissions, before: u32, after: u32, now: Instant) {
        let used = pods(before);
        pending.recount(&usage("a", &used), &pods(after), now);
    }

    #[test]
    fn recount_without_the_latest_objects_does_not_admit_more() {
        let now = Instant::now();
        let mut pending = PendingAdmissions::default();
        assert_eq!(admit(&mut pending, 2, 3, 1, now), Ok(()));
        recount(&mut pending, 3, 2, now);
        // Three exist, so this is the fourth.
        assert_eq!(admit(&mut pending, 2, 3, 1, now), Ok(()));
        assert!(admit(&mut pending, 3, 4, 1, now).is_err());
        recount(&mut pending, 3, 4, now);
        assert!(admit(&mut pending, 4, 5, 1, now).is_err());
        assert_eq!(admit(&mut pending, 4, 5, 0, now), Ok(()));
    }

    #[test]
    fn recount_counts_after_a_request_that_it_has_overtaken() {
        let now = Instant::now();
        let mut pending = PendingAdmissions::default();
        assert_eq!(admit(&mut pending, 0, 1, 0, now), Ok(()));
        recount(&mut pending, 1, 0, now);
        // It was sent before the recount, so the API server drops it and repeats it.
        assert_eq!(admit(&mut pending, 1, 4, 0, now), Ok(()));
        assert_eq!(admit(&mut pending, 0, 3, 0, now), Ok(()));
        assert!(admit(&mut pending, 3, 4, 1, now).is_err());
        assert_eq!(admit(&mut pending, 3, 4, 0, now), Ok(()));
    }

    #[test]
    fn repeated_request_after_a_conflict_counts_once() {
        let now = Instant::now();
        let mut pending = PendingAdmissions::default();
        for _ in 0..3 {
            assert_eq!(admit(&mut pending, 0, 4, 1, now), Ok(()));
            recount(&mut pending, 0, 0, now);
        }
    }

    #[test]
    fn room_of_deleted_objects_is_free_after_the_expiry() {
        let now = Instant::now();
        let mut pending = PendingAdmissions::default();
        assert_eq!(admit(&mut pending, 4, 5, 0, now), Ok(()));
        recount(&mut pending, 5, 3, now);
        assert!(admit(&mut pending, 3, 4, 0, now).is_err());
        assert_eq!(admit(&mut pending, 3, 5, 0, now + EXPIRY), Ok(()));
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
