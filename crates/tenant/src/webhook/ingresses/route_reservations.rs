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
const MAX_ROUTES: usize = 2000;

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

/// Returns the reservations with one for an Ingress, whose earlier reservation is extended. Returns
/// `None` if too many routes are reserved.
pub(super) fn with_reservation(
    mut valid: Vec<RouteReservation>,
    key: &ObjectKey,
    tenant: &str,
    routes: &BTreeSet<Route>,
    now: Timestamp,
) -> Option<Vec<RouteReservation>> {
    let mut all = routes.clone();
    for earlier in valid.extract_if(.., |reservation| ingress(reservation) == *key) {
        all.extend(earlier.routes);
    }
    valid.push(RouteReservation {
        namespace: key.namespace().unwrap_or_default().to_owned(),
        name: key.name().to_owned(),
        tenant: tenant.to_owned(),
        routes: all.into_iter().collect(),
        until: Time(now + LIFETIME),
    });
    let count: usize = valid.iter().map(|reservation| reservation.routes.len()).sum();
    (count <= MAX_ROUTES).then_some(valid)
}

/// Ingresses that were deleted while their routes may be reserved. Their reservations are void.
#[derive(Debug, Default)]
pub(super) struct DeletedIngresses(HashMap<ObjectKey, Timestamp>);

impl DeletedIngresses {
    pub(super) fn insert(&mut self, ingress: ObjectKey, now: Timestamp) {
        self.0.retain(|_, deleted| *deleted + LIFETIME > now);
        self.0.insert(ingress, now);
    }

    /// Returns the reservations that are neither expired nor void.
    pub(super) fn valid(&self, reservations: &[RouteReservation], now: Timestamp) -> Vec<RouteReservation> {
        let is_void = |reservation: &RouteReservation| {
            let deleted = self.0.get(&ingress(reservation));
            deleted.is_some_and(|deleted| reservation.until.0 < *deleted + LIFETIME)
        };
        let valid = reservations.iter().filter(|one| one.until.0 > now && !is_void(one));
        valid.cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(host: &str) -> Route {
        Route { host: host.to_owned(), path: "/".to_owned() }
    }

    fn reserve(valid: Vec<RouteReservation>, host: &str, now: Timestamp) -> Vec<RouteReservation> {
        let web = ObjectKey::namespaced("oil-dev", "web");
        with_reservation(valid, &web, "oil", &[route(host)].into(), now).unwrap()
    }

    #[test]
    fn routes_are_reserved_until_they_expire_or_the_ingress_is_deleted() {
        let (now, mut deleted) = (Timestamp::UNIX_EPOCH, DeletedIngresses::default());
        let found = reserve(reserve(Vec::new(), "a.b", now), "c.d", now);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].routes, [route("a.b"), route("c.d")]);
        assert_eq!(deleted.valid(&found, now).len(), 1);
        assert!(deleted.valid(&found, now + LIFETIME).is_empty());
        deleted.insert(ingress(&found[0]), now + Duration::from_secs(1));
        assert!(deleted.valid(&found, now + Duration::from_secs(2)).is_empty());
        let again = reserve(Vec::new(), "a.b", now + Duration::from_secs(2));
        assert_eq!(deleted.valid(&again, now + Duration::from_secs(3)).len(), 1, "recreated");
        deleted.insert(ObjectKey::namespaced("oil-dev", "other"), now + LIFETIME * 2);
        assert_eq!(deleted.0.len(), 1, "old deletions are forgotten");
    }

    #[test]
    fn keys_match_routes_and_the_wildcards_that_cover_them() {
        let found = reserve(Vec::new(), "a.b.c", Timestamp::UNIX_EPOCH).remove(0);
        assert!(reserves(&found, &RouteKey::Exact(route("a.b.c"))));
        assert!(reserves(&found, &RouteKey::CoveredBy(route("*.b.c"))));
        assert!(!reserves(&found, &RouteKey::Exact(route("*.b.c"))));
        assert!(!reserves(&found, &RouteKey::CoveredBy(route("*.c"))));
    }

    #[test]
    fn number_of_reserved_routes_is_limited() {
        let (web, now) = (ObjectKey::namespaced("oil-dev", "web"), Timestamp::UNIX_EPOCH);
        let many = |count: usize| (0..count).map(|index| route(&format!("host-{index}"))).collect();
        let full = with_reservation(Vec::new(), &web, "oil", &many(MAX_ROUTES), now).unwrap();
        let other = ObjectKey::namespaced("oil-dev", "other");
        assert_eq!(with_reservation(full.clone(), &other, "oil", &many(1), now), None);
        assert!(with_reservation(full, &web, "oil", &many(1), now).is_some());
    }
}
