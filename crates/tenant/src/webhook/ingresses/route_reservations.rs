//! Reservations of routes for Ingresses that the caches may not contain yet. Pure.
//!
//! The status of the configuration contains them, so that they hold for all replicas.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use capsule::api::v1beta2::{Route, RouteReservation};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use operator_core::ObjectKey;

use super::collisions::RouteKey;
use crate::policies::ingresses::wildcard;

/// Time for which routes stay reserved. Longer than a cache lags behind, and than the clocks of two
/// replicas differ.
const LIFETIME: Duration = Duration::from_secs(15);
/// Limit of reserved routes, which bounds the size of the status.
pub(super) const MAX_ROUTES: usize = 2000;

/// Returns the Ingress of a reservation.
pub(super) fn ingress(reservation: &RouteReservation) -> ObjectKey {
    ObjectKey::namespaced(&reservation.namespace, &reservation.name)
}

/// Returns whether a reservation has a route with this key.
pub(super) fn reserves(reservation: &RouteReservation, key: &RouteKey) -> bool {
    match key {
        RouteKey::Exact(route) => reservation.routes.contains(route),
        RouteKey::CoveredBy(covering) => {
            reservation.routes.iter().any(|route| wildcard(route).as_ref() == Some(covering))
        }
    }
}

/// What a request reserves.
#[derive(Clone, Debug)]
pub(super) struct Claim<'c> {
    pub(super) key: &'c ObjectKey,
    pub(super) tenant: &'c str,
    pub(super) routes: &'c BTreeSet<Route>,
    /// Resource version of all Ingresses.
    pub(super) resource_version: String,
}

/// Returns the reservations with that of a claim, which extends an earlier one of the same Ingress.
/// Returns `None` if too many routes are reserved.
pub(super) fn with_reservation(
    mut valid: Vec<RouteReservation>,
    claim: Claim<'_>,
    now: Timestamp,
) -> Option<Vec<RouteReservation>> {
    let Claim { key, tenant, routes, resource_version } = claim;
    let mut all = routes.clone();
    for earlier in valid.extract_if(.., |reservation| ingress(reservation) == *key) {
        all.extend(earlier.routes);
    }
    valid.push(RouteReservation {
        namespace: key.namespace().unwrap_or_default().to_owned(),
        name: key.name().to_owned(),
        tenant: tenant.to_owned(),
        routes: all.into_iter().collect(),
        resource_version,
        until: Time(now + LIFETIME),
    });
    let count: usize = valid.iter().map(|reservation| reservation.routes.len()).sum();
    (count <= MAX_ROUTES).then_some(valid)
}

/// Ingresses that were deleted while their routes may be reserved.
#[derive(Debug, Default)]
pub(super) struct DeletedIngresses(HashMap<ObjectKey, Deletion>);

#[derive(Debug)]
struct Deletion {
    /// Last resource version of the Ingress.
    resource_version: u64,
    observed: Timestamp,
}

impl DeletedIngresses {
    pub(super) fn insert(&mut self, ingress: ObjectKey, resource_version: &str, now: Timestamp) {
        self.0.retain(|_, deletion| deletion.observed + LIFETIME > now);
        if let Ok(resource_version) = resource_version.parse() {
            self.0.insert(ingress, Deletion { resource_version, observed: now });
        }
    }

    /// Returns the reservations that have not expired, and whose Ingress was not deleted.
    ///
    /// A deletion ends a reservation only if it is of the Ingress that the reservation was made for:
    /// one that was written later than the reservation, by the order of resource versions.
    pub(super) fn valid(&self, reservations: &[RouteReservation], now: Timestamp) -> Vec<RouteReservation> {
        let is_deleted = |reservation: &RouteReservation| {
            let reserved = reservation.resource_version.parse::<u64>();
            let deletion = self.0.get(&ingress(reservation));
            deletion
                .zip(reserved.ok())
                .is_some_and(|(deletion, reserved)| deletion.resource_version > reserved)
        };
        let valid = reservations.iter().filter(|one| one.until.0 > now && !is_deleted(one));
        valid.cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(host: &str) -> Route {
        Route { host: host.to_owned(), path: "/".to_owned() }
    }

    fn web() -> ObjectKey {
        ObjectKey::namespaced("oil-dev", "web")
    }

    fn reserve(
        valid: Vec<RouteReservation>,
        host: &str,
        version: &str,
        now: Timestamp,
    ) -> Vec<RouteReservation> {
        let (key, routes, resource_version) = (web(), [route(host)].into(), version.to_owned());
        let claim = Claim { key: &key, tenant: "oil", routes: &routes, resource_version };
        with_reservation(valid, claim, now).unwrap()
    }

    #[test]
    fn routes_are_reserved_until_they_expire_or_the_ingress_is_deleted() {
        let (now, mut deleted) = (Timestamp::UNIX_EPOCH, DeletedIngresses::default());
        let found = reserve(reserve(Vec::new(), "a.b", "5", now), "c.d", "6", now);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].routes, [route("a.b"), route("c.d")]);
        assert_eq!(deleted.valid(&found, now).len(), 1);
        assert!(deleted.valid(&found, now + LIFETIME).is_empty());
        deleted.insert(web(), "7", now);
        assert!(deleted.valid(&found, now).is_empty());
        deleted.insert(ObjectKey::namespaced("oil-dev", "other"), "9", now + LIFETIME * 2);
        assert_eq!(deleted.0.len(), 1, "old deletions are forgotten");
    }

    /// A replica can observe the deletion after another one has reserved routes for the next Ingress.
    #[test]
    fn deletion_of_an_earlier_ingress_of_the_same_name_ends_nothing() {
        let (now, mut deleted) = (Timestamp::UNIX_EPOCH, DeletedIngresses::default());
        let found = reserve(Vec::new(), "a.b", "8", now);
        for version in ["7", "8", "many"] {
            deleted.insert(web(), version, now + Duration::from_secs(1));
            assert_eq!(deleted.valid(&found, now + Duration::from_secs(2)).len(), 1, "{version}");
        }
    }

    #[test]
    fn keys_match_routes_and_the_wildcards_that_cover_them() {
        let found = reserve(Vec::new(), "a.b.c", "1", Timestamp::UNIX_EPOCH).remove(0);
        assert!(reserves(&found, &RouteKey::Exact(route("a.b.c"))));
        assert!(reserves(&found, &RouteKey::CoveredBy(route("*.b.c"))));
        assert!(!reserves(&found, &RouteKey::Exact(route("*.b.c"))));
        assert!(!reserves(&found, &RouteKey::CoveredBy(route("*.c"))));
    }

    #[test]
    fn number_of_reserved_routes_is_limited() {
        let now = Timestamp::UNIX_EPOCH;
        let reserve = |valid, name: &str, count: usize| {
            let key = ObjectKey::namespaced("oil-dev", name);
            let routes = (0..count).map(|index| route(&format!("host-{index}"))).collect();
            let resource_version = "1".to_owned();
            with_reservation(
                valid,
                Claim { key: &key, tenant: "oil", routes: &routes, resource_version },
                now,
            )
        };
        let full = reserve(Vec::new(), "web", MAX_ROUTES).unwrap();
        assert_eq!(reserve(full.clone(), "other", 1), None);
        assert!(reserve(full, "web", 1).is_some());
    }
}
