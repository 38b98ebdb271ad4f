//! Routes of admitted Ingresses that the cache may not contain yet. Pure.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    time::{Duration, Instant},
};

use operator_core::ObjectKey;

use super::collisions::{RouteKey, route_keys};
use crate::{
    policies::{Violation, ingresses::Route},
    reasons::INGRESS_HOSTNAME_COLLISION,
};

/// Time for which a route stays reserved. Longer than a cache lags behind.
const LIFETIME: Duration = Duration::from_secs(10);
/// Limit of reserved keys, which bounds the memory.
const MAX_KEYS: usize = 1 << 16;

/// Reserved routes.
#[derive(Debug, Default)]
pub(super) struct PendingRoutes {
    by_key: HashMap<RouteKey, Vec<Reservation>>,
    /// The keys in the order in which they expire.
    expiry: VecDeque<(Instant, RouteKey)>,
}

#[derive(Debug)]
struct Reservation {
    ingress: ObjectKey,
    tenant: String,
    expires: Instant,
}

impl PendingRoutes {
    /// Removes reservations that have expired.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some((_, key)) = self.expiry.pop_front_if(|(expires, _)| *expires <= now) {
            if let Some(reservations) = self.by_key.get_mut(&key) {
                reservations.retain(|reservation| reservation.expires > now);
                if reservations.is_empty() {
                    self.by_key.remove(&key);
                }
            }
        }
    }

    /// Returns the Ingresses with a reserved route, and their Tenants.
    pub(super) fn owners(&self, key: &RouteKey) -> impl Iterator<Item = (&ObjectKey, &str)> {
        let reservations = self.by_key.get(key).into_iter().flatten();
        reservations.map(|reservation| (&reservation.ingress, reservation.tenant.as_str()))
    }

    /// Reserves routes for an Ingress, in addition to those that it has reserved.
    ///
    /// # Errors
    /// Returns an error if too many routes are reserved.
    pub(super) fn reserve(
        &mut self,
        ingress: &ObjectKey,
        tenant: &str,
        routes: &BTreeSet<Route>,
        now: Instant,
    ) -> Result<(), Violation> {
        let (keys, expires) = (route_keys(routes), now + LIFETIME);
        if self.expiry.len() + keys.len() > MAX_KEYS {
            let message =
                format!("too many host names were added in the last {LIFETIME:?}; try again in some seconds");
            return Err(Violation::new(INGRESS_HOSTNAME_COLLISION, message));
        }
        for key in keys {
            let reservations = self.by_key.entry(key.clone()).or_default();
            reservations.retain(|reservation| reservation.ingress != *ingress);
            reservations.push(Reservation { ingress: ingress.clone(), tenant: tenant.to_owned(), expires });
            self.expiry.push_back((expires, key));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(host: &str) -> BTreeSet<Route> {
        [Route { host: host.to_owned(), path: "/".to_owned() }].into()
    }

    fn owners(pending: &PendingRoutes, host: &str) -> Vec<String> {
        let key = route_keys(&routes(host)).remove(0);
        pending.owners(&key).map(|(ingress, tenant)| format!("{tenant} {}", ingress.name())).collect()
    }

    #[test]
    fn routes_are_reserved_until_they_expire() {
        let (mut pending, now) = (PendingRoutes::default(), Instant::now());
        let web = ObjectKey::namespaced("oil-dev", "web");
        pending.reserve(&web, "oil", &routes("a.b"), now).unwrap();
        pending.reserve(&web, "oil", &routes("c.d"), now).unwrap();
        assert_eq!(owners(&pending, "a.b"), ["oil web"]);
        assert_eq!(owners(&pending, "c.d"), ["oil web"]);
        assert_eq!(owners(&pending, "e.f"), [""; 0]);
        pending.reserve(&web, "oil", &routes("a.b"), now + LIFETIME / 2).unwrap();
        assert_eq!(owners(&pending, "a.b"), ["oil web"]);
        pending.expire(now + LIFETIME);
        assert_eq!((owners(&pending, "a.b"), owners(&pending, "c.d")), (vec!["oil web".to_owned()], vec![]));
        pending.expire(now + LIFETIME * 2);
        assert!(pending.by_key.is_empty() && pending.expiry.is_empty());
    }

    #[test]
    fn number_of_reservations_is_limited() {
        let (mut pending, now) = (PendingRoutes::default(), Instant::now());
        let ingress = ObjectKey::namespaced("oil-dev", "web");
        let many = (0..MAX_KEYS).flat_map(|index| routes(&format!("host-{index}"))).collect();
        pending.reserve(&ingress, "oil", &many, now).unwrap();
        assert!(pending.reserve(&ingress, "oil", &routes("a"), now).is_err());
        pending.expire(now + LIFETIME);
        assert!(pending.reserve(&ingress, "oil", &routes("a"), now).is_ok());
    }
}
