//! What was admitted and is not in the cache yet. Pure.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use operator_core::{ObjectKey, quantity::Quantity};

use crate::quota::Resources;

/// How long an admitted count is believed that is never seen. The API server may have dropped it: another write came
/// first, or another webhook refused.
const UNSEEN: Duration = Duration::from_secs(2);

/// What the ResourceQuota of one namespace counts.
pub(super) struct Count<'q> {
    pub(super) quota: ObjectKey,
    /// The resource version at which it counts that.
    pub(super) version: u64,
    pub(super) used: &'q Resources,
}

/// More than the whole would be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Excess {
    pub(super) resource: String,
    pub(super) limit: String,
    /// What all namespaces use without what is asked for, and with it.
    pub(super) before: String,
    pub(super) after: String,
}

/// Counts that were admitted, of all Tenants.
#[derive(Default)]
pub(super) struct Ledger(HashMap<ObjectKey, Admitted>);

struct Admitted {
    used: Resources,
    /// The version that it takes the place of: what is at most as old is older than this.
    replaced: u64,
    until: Instant,
}

impl Ledger {
    /// Lets `asked` take the place of what `present` counts, if all of it together stays within `hard`. What goes down,
    /// or stays, is never held up.
    pub(super) fn admit(
        &mut self,
        hard: &Resources,
        present: &Count<'_>,
        asked: &Resources,
        others: &[Count<'_>],
        now: Instant,
    ) -> Result<(), Excess> {
        self.0.retain(|_, admitted| now < admitted.until);
        for (resource, limit) in hard {
            let (before, after) = (amount(present.used, resource), amount(asked, resource));
            let Ok(limit) = Quantity::try_from(limit) else { continue };
            if after <= before {
                continue;
            }
            let others = others.iter().map(|other| self.used(other, resource));
            let others = others.fold(Quantity::ZERO, Quantity::saturating_add);
            let total = others.saturating_add(after);
            if total > limit {
                return Err(Excess {
                    resource: resource.clone(),
                    limit: limit.to_string(),
                    before: others.saturating_add(before).to_string(),
                    after: total.to_string(),
                });
            }
        }
        let admitted = Admitted { used: asked.clone(), replaced: present.version, until: now + UNSEEN };
        self.0.insert(present.quota.clone(), admitted);
        Ok(())
    }

    /// What a namespace uses, as far as it is seen or was admitted.
    fn used(&self, count: &Count<'_>, resource: &str) -> Quantity {
        let seen = amount(count.used, resource);
        match self.0.get(&count.quota).filter(|admitted| count.version <= admitted.replaced) {
            Some(admitted) => seen.max(amount(&admitted.used, resource)),
            None => seen,
        }
    }
}

/// Nothing, where it cannot be read: the API server counts in quantities that it has written itself.
fn amount(used: &Resources, resource: &str) -> Quantity {
    used.get(resource).and_then(|amount| Quantity::try_from(amount).ok()).unwrap_or(Quantity::ZERO)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

    use super::*;

    fn pods(count: u32) -> Resources {
        [("pods".to_owned(), ApiQuantity(count.to_string()))].into()
    }

    fn count<'q>(namespace: &str, version: u64, used: &'q Resources) -> Count<'q> {
        Count { quota: ObjectKey::namespaced(namespace, "q"), version, used }
    }

    /// Namespace a asks for more, beside b.
    fn ask(ledger: &mut Ledger, from: u32, to: u32, b: (u64, u32), now: Instant) -> Result<(), Excess> {
        let (present, asked, other) = (pods(from), pods(to), pods(b.1));
        ledger.admit(&pods(5), &count("a", 1, &present), &asked, &[count("b", b.0, &other)], now)
    }

    #[test]
    fn what_fits_the_whole_is_admitted_and_no_more() {
        let now = Instant::now();
        let mut ledger = Ledger::default();
        assert_eq!(ask(&mut ledger, 1, 2, (1, 3), now), Ok(()));
        let excess = ask(&mut ledger, 2, 3, (1, 3), now).unwrap_err();
        assert_eq!(
            excess,
            Excess { resource: "pods".into(), limit: "5".into(), before: "5".into(), after: "6".into() }
        );
    }

    #[test]
    fn what_goes_down_is_never_held_up() {
        let mut ledger = Ledger::default();
        assert_eq!(ask(&mut ledger, 9, 8, (1, 9), Instant::now()), Ok(()));
        assert_eq!(ask(&mut ledger, 9, 9, (1, 9), Instant::now()), Ok(()));
    }

    #[test]
    fn what_was_admitted_counts_until_it_is_seen_or_was_dropped() {
        let now = Instant::now();
        let mut ledger = Ledger::default();
        let (none, four) = (pods(0), pods(4));
        let admitted = ledger.admit(&pods(5), &count("b", 7, &none), &four, &[], now);
        assert_eq!(admitted, Ok(()));
        // The cache still shows b as it was.
        assert!(ask(&mut ledger, 0, 2, (7, 0), now).is_err());
        // It shows a later state, in which b gave two back.
        assert_eq!(ask(&mut ledger, 0, 2, (9, 2), now), Ok(()));
        // It never was written.
        let later = now + Duration::from_secs(3);
        assert_eq!(ask(&mut ledger, 0, 2, (7, 0), later), Ok(()));
    }
}
