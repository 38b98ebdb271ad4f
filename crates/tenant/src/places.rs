//! Places within a Tenant's quota of namespaces. Pure.
//!
//! A namespace is given a place before it is created, by an entry in the Tenant's status that the API server takes from
//! one writer at a time. So however many are created at once, by whichever replica they are admitted, there are never
//! more than the quota says. A place is given for a minute; by then the namespace is known, or was never created.

use std::collections::BTreeSet;

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::{SignedDuration, Timestamp},
};

use crate::api::v1beta2::{Reservation, Tenant, TenantStatus};

/// For how long a place is given: longer than the API server takes for any request.
const LASTS: SignedDuration = SignedDuration::from_mins(1);
/// A place that is given for less than this is given anew to who asks again.
const RENEWED: SignedDuration = SignedDuration::from_secs(30);

/// Whether there is a place for a namespace.
#[derive(Debug, PartialEq)]
pub(crate) enum Place {
    /// There is, and nothing has to be written.
    Given,
    /// There is, once this is the Tenant's status.
    Give(Box<TenantStatus>),
    /// There is none.
    None {
        /// How many places are taken.
        taken: usize,
        /// How many there are.
        quota: usize,
    },
}

/// Whether a Tenant has a place for a namespace beside its `members`.
pub(crate) fn place(tenant: &Tenant, members: &BTreeSet<String>, namespace: &str, now: Timestamp) -> Place {
    let Some(quota) = quota(tenant) else { return Place::Given };
    let status = tenant.status.clone().unwrap_or_default();
    let mut taken: BTreeSet<_> = members.iter().map(String::as_str).collect();
    taken.extend(valid(&status.reservations, now).map(|reservation| reservation.namespace.as_str()));
    taken.remove(namespace);
    if taken.len() >= quota {
        return Place::None { taken: taken.len(), quota };
    }
    let is_given = |reservation: &Reservation| {
        reservation.namespace == namespace && reservation.until.0 > later(now, RENEWED)
    };
    if status.reservations.iter().any(is_given) {
        return Place::Given;
    }
    Place::Give(Box::new(with(status, namespace, now)))
}

fn with(mut status: TenantStatus, namespace: &str, now: Timestamp) -> TenantStatus {
    drop_expired(&mut status, now);
    status.reservations.retain(|reservation| reservation.namespace != namespace);
    let until = Time(later(now, LASTS));
    status.reservations.push(Reservation { namespace: namespace.to_owned(), until });
    status
}

/// Takes out the reservations that no longer count.
pub(crate) fn drop_expired(status: &mut TenantStatus, now: Timestamp) {
    status.reservations.retain(|reservation| reservation.until.0 > now);
}

fn valid(reservations: &[Reservation], now: Timestamp) -> impl Iterator<Item = &Reservation> {
    reservations.iter().filter(move |reservation| reservation.until.0 > now)
}

fn later(now: Timestamp, by: SignedDuration) -> Timestamp {
    now.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// How many namespaces the Tenant may have.
pub(crate) fn quota(tenant: &Tenant) -> Option<usize> {
    let quota = tenant.spec.namespace_options.as_ref()?.quota?;
    Some(quota.try_into().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn tenant(quota: Option<i32>, reserved: &[(&str, i64)]) -> Tenant {
        let reservations: Vec<Value> = reserved
            .iter()
            .map(|(name, seconds)| json!({ "namespace": name, "until": later(NOW, SignedDuration::from_secs(*seconds)) }))
            .collect();
        serde_json::from_value(json!({
            "metadata": { "name": "oil" },
            "spec": { "namespaceOptions": { "quota": quota } },
            "status": { "state": "Active", "size": 2, "reservations": reservations },
        }))
        .unwrap()
    }

    fn asked(tenant: &Tenant, members: &[&str], namespace: &str) -> Place {
        place(tenant, &members.iter().map(|name| (*name).to_owned()).collect(), namespace, NOW)
    }

    fn given(place: Place) -> Vec<(String, i64)> {
        match place {
            Place::Give(status) => status
                .reservations
                .iter()
                .map(|one| (one.namespace.clone(), one.until.0.as_second()))
                .collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_a_quota_nothing_is_written() {
        assert_eq!(asked(&tenant(None, &[]), &["a", "b"], "c"), Place::Given);
    }

    #[test]
    fn a_free_place_is_given_for_a_minute_and_the_rest_of_the_status_stays() {
        let place = asked(&tenant(Some(3), &[]), &["a", "b"], "c");
        let Place::Give(status) = &place else { panic!("{place:?}") };
        assert_eq!(status.size, 2);
        assert_eq!(given(place), [("c".to_owned(), 60)]);
    }

    #[test]
    fn members_and_reservations_are_counted_each_once() {
        assert_eq!(asked(&tenant(Some(2), &[]), &["a", "b"], "c"), Place::None { taken: 2, quota: 2 });
        let reserved = tenant(Some(2), &[("a", 20), ("b", 20)]);
        assert_eq!(asked(&reserved, &["a"], "c"), Place::None { taken: 2, quota: 2 });
        assert!(asked(&tenant(Some(2), &[("a", 20)]), &["a"], "c").is_given());
    }

    #[test]
    fn an_expired_reservation_counts_no_more_and_goes() {
        let place = asked(&tenant(Some(2), &[("a", 0), ("b", 20)]), &[], "c");
        assert_eq!(given(place), [("b".to_owned(), 20), ("c".to_owned(), 60)]);
    }

    #[test]
    fn who_has_a_place_keeps_it_and_only_one() {
        assert_eq!(asked(&tenant(Some(1), &[("a", 50)]), &[], "a"), Place::Given);
        assert_eq!(given(asked(&tenant(Some(1), &[("a", 10)]), &[], "a")), [("a".to_owned(), 60)]);
    }

    #[test]
    fn a_quota_below_what_is_there_gives_no_place() {
        assert_eq!(asked(&tenant(Some(1), &[]), &["a", "b"], "c"), Place::None { taken: 2, quota: 1 });
        assert_eq!(asked(&tenant(Some(1), &[]), &["a", "b", "c"], "c"), Place::None { taken: 2, quota: 1 });
    }

    impl Place {
        fn is_given(&self) -> bool {
            !matches!(self, Self::None { .. })
        }
    }
}
