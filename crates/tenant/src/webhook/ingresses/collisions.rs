//! Host names and paths that several Ingresses use.
//!
//! An Ingress is compared with the cache, and with the reservations in the status of the
//! configuration. Its own routes are reserved there before it is admitted, by a write that contains
//! the resource version. One of several simultaneous Ingresses therefore wins, whichever replicas
//! review them.

use std::{collections::BTreeSet, sync::Arc};

use capsule::api::{
    names::TENANT_LABEL,
    v1beta2::{CONFIGURATION_NAME, CapsuleConfiguration, HostnameCollisionScope, Route, RouteReservation},
};
use k8s_openapi::{api::core::v1::Namespace, jiff::Timestamp};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PostParams},
};
use operator_core::{
    ObjectKey,
    admission::{BoxError, Caches},
    error::is_conflict,
    informer::{Index, Informer, Selection, Subscription},
    kind::Kind,
};
use parking_lot::Mutex;

use super::route_reservations::{Claim, DeletedIngresses, MAX_ROUTES, ingress, reserves, with_reservation};
use crate::{
    policies::{
        Violation,
        ingresses::{ReviewedIngress, wildcard},
    },
    reasons::INGRESS_HOSTNAME_COLLISION,
};

/// Finds Ingresses by their routes.
pub(super) struct Collisions {
    namespaces: Informer<Namespace>,
    configurations: Informer<CapsuleConfiguration>,
    by_route: Index<ReviewedIngress, RouteKey>,
    deleted: Arc<Mutex<DeletedIngresses>>,
    writer: Client,
    /// Reviews of one process run one after the other, so that conflicts come only from others.
    turn: tokio::sync::Mutex<()>,
    _subscription: Subscription,
}

/// Key of an Ingress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum RouteKey {
    /// It has this route.
    Exact(Route),
    /// It has a route that this wildcard covers.
    CoveredBy(Route),
}

/// Routes that a request adds.
#[derive(Clone, Debug)]
pub(super) struct Review<'r> {
    /// The Ingress.
    pub(super) key: ObjectKey,
    /// Its Tenant.
    pub(super) tenant: &'r str,
    /// The scope in which the routes must be unique.
    pub(super) scope: HostnameCollisionScope,
    /// The added routes.
    pub(super) added: BTreeSet<Route>,
}

/// Returns the keys of an Ingress with these routes.
pub(super) fn route_keys(routes: &BTreeSet<Route>) -> Vec<RouteKey> {
    let exact = routes.iter().cloned().map(RouteKey::Exact);
    exact.chain(routes.iter().filter_map(wildcard).map(RouteKey::CoveredBy)).collect()
}

impl Review<'_> {
    /// Returns whether an Ingress of another Tenant, or of none, is in the scope.
    fn covers(&self, other: &ObjectKey, tenant: Option<&str>) -> bool {
        if *other == self.key {
            return false;
        }
        match self.scope {
            HostnameCollisionScope::Cluster => tenant.is_some(),
            HostnameCollisionScope::Tenant => tenant == Some(self.tenant),
            HostnameCollisionScope::Namespace => other.namespace() == self.key.namespace(),
            HostnameCollisionScope::Disabled => false,
        }
    }

    /// Returns the keys of Ingresses that can collide with a route: those with the same route, and
    /// with the scope Cluster those of other Tenants that it covers or that cover it.
    fn keys(&self, route: &Route) -> Vec<(RouteKey, bool)> {
        let exact = (RouteKey::Exact(route.clone()), false);
        let related = if route.host.starts_with('*') {
            Some(RouteKey::CoveredBy(route.clone()))
        } else {
            wildcard(route).map(RouteKey::Exact)
        };
        let related = related.filter(|_| self.scope == HostnameCollisionScope::Cluster);
        std::iter::once(exact).chain(related.map(|key| (key, true))).collect()
    }
}

impl Collisions {
    pub(super) fn build(caches: &mut Caches<'_>) -> Self {
        let ingresses = caches.informer::<ReviewedIngress>(Selection::All);
        let keys = |ingress: &ReviewedIngress| route_keys(&ingress.routes());
        let deleted = Arc::<Mutex<DeletedIngresses>>::default();
        let observed = deleted.clone();
        let subscription = ingresses.subscribe(move |change| {
            if let (Some(old), None) = (&change.old, &change.new) {
                let version = old.resource_version().unwrap_or_default();
                observed.lock().insert(change.key.clone(), &version, Timestamp::now());
            }
        });
        Self {
            namespaces: caches.informer(Selection::All),
            configurations: caches.informer(Selection::All),
            by_route: ingresses.store().index(keys),
            deleted,
            writer: caches.writer(),
            turn: tokio::sync::Mutex::default(),
            _subscription: subscription,
        }
    }

    /// Checks the added routes, and reserves them unless it is a dry run.
    ///
    /// # Errors
    /// Returns an error if there is no configuration, or a request to the API server fails.
    pub(super) async fn check(
        &self,
        review: &Review<'_>,
        is_dry_run: bool,
    ) -> Result<Result<(), Violation>, BoxError> {
        if review.added.is_empty() {
            return Ok(Ok(()));
        }
        if review.added.len() > MAX_ROUTES {
            return Ok(Err(too_many(review)));
        }
        let _turn = self.turn.lock().await;
        let cached = self.configurations.store().get(&ObjectKey::cluster(CONFIGURATION_NAME));
        let mut configuration = match cached {
            Some(cached) => cached.as_ref().clone(),
            None => self.live().await?,
        };
        // On a conflict, another writer made progress. The timeout of the review ends the loop.
        loop {
            let reserved = configuration.status.iter().flat_map(|status| status.route_reservations.clone());
            let now = Timestamp::now();
            let valid = self.deleted.lock().valid(&reserved.collect::<Vec<_>>(), now);
            if let Some(route) = review.added.iter().find(|route| self.is_used(review, route, &valid)) {
                return Ok(Err(collision(review, route)));
            }
            if is_dry_run {
                return Ok(Ok(()));
            }
            let claim = Claim {
                key: &review.key,
                tenant: review.tenant,
                routes: &review.added,
                resource_version: self.resource_version(review).await?,
            };
            let next = with_reservation(valid, claim, now);
            let Some(next) = next else { return Ok(Err(too_many(review))) };
            if self.write(configuration, next).await? {
                return Ok(Ok(()));
            }
            configuration = self.live().await?;
        }
    }

    /// Returns the current resource version of all Ingresses.
    async fn resource_version(&self, review: &Review<'_>) -> Result<String, BoxError> {
        let api = ReviewedIngress::api(self.writer.clone(), review.key.namespace());
        let list = api.list_metadata(&ListParams::default().limit(1)).await?;
        Ok(list.metadata.resource_version.unwrap_or_default())
    }

    async fn live(&self) -> Result<CapsuleConfiguration, BoxError> {
        let selector = ListParams::default().fields(&format!("metadata.name={CONFIGURATION_NAME}"));
        let found = Api::all(self.writer.clone()).list(&selector).await?.items.pop();
        found.ok_or_else(|| {
            format!("CapsuleConfiguration {CONFIGURATION_NAME}, which reserves host names, does not exist yet; try again")
                .into()
        })
    }

    /// Writes the reservations. Returns false on a conflict.
    async fn write(
        &self,
        mut configuration: CapsuleConfiguration,
        reservations: Vec<RouteReservation>,
    ) -> Result<bool, BoxError> {
        configuration.status.get_or_insert_default().route_reservations = reservations;
        let epoch = self.configurations.store().epoch();
        let api = Api::<CapsuleConfiguration>::all(self.writer.clone());
        match api.replace_status(CONFIGURATION_NAME, &PostParams::default(), &configuration).await {
            Ok(mut written) => {
                written.metadata.managed_fields = None;
                self.configurations.record_write(epoch, written);
                Ok(true)
            }
            Err(error) if is_conflict(&error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn is_used(&self, review: &Review<'_>, route: &Route, reserved: &[RouteReservation]) -> bool {
        let mut keys = review.keys(route).into_iter();
        keys.any(|(key, only_others)| {
            let collides = |other: &ObjectKey, tenant: Option<&str>| {
                review.covers(other, tenant) && !(only_others && tenant == Some(review.tenant))
            };
            let stored = self.by_route.get(&key);
            let mut stored = stored.iter().map(|ingress| ObjectKey::of(ingress.as_ref()));
            let is_stored = stored.any(|other| {
                let tenant = self.tenant_of(other.namespace().unwrap_or_default());
                collides(&other, tenant.as_deref())
            });
            let mut reserved = reserved.iter().filter(|reservation| reserves(reservation, &key));
            is_stored || reserved.any(|one| collides(&ingress(one), Some(&one.tenant)))
        })
    }

    fn tenant_of(&self, namespace: &str) -> Option<String> {
        let found = self.namespaces.store().get(&ObjectKey::cluster(namespace))?;
        found.labels().get(TENANT_LABEL).cloned()
    }
}

/// Returns the denial. It does not name the other Ingress, which can be in another Tenant.
fn collision(review: &Review<'_>, route: &Route) -> Violation {
    let scope = match review.scope {
        HostnameCollisionScope::Cluster => "the Tenants of this cluster".to_owned(),
        HostnameCollisionScope::Tenant => format!("Tenant {}", review.tenant),
        HostnameCollisionScope::Namespace | HostnameCollisionScope::Disabled => {
            format!("namespace {}", review.key.namespace().unwrap_or_default())
        }
    };
    let Route { host, path } = route;
    let host = if host.is_empty() { "any host".to_owned() } else { format!("host {host}") };
    let message = format!(
        "spec.rules[].host: another Ingress in {scope} already uses {host} with path {path}; use another host or path"
    );
    Violation::new(INGRESS_HOSTNAME_COLLISION, message)
}

fn too_many(review: &Review<'_>) -> Violation {
    let message = if review.added.len() > MAX_ROUTES {
        format!(
            "spec.rules: a request can add at most {MAX_ROUTES} pairs of host name and path; split the Ingress"
        )
    } else {
        "spec.rules: too many host names are new in this moment; try again in some seconds".to_owned()
    };
    Violation::new(INGRESS_HOSTNAME_COLLISION, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(host: &str) -> Route {
        Route { host: host.to_owned(), path: "/".to_owned() }
    }

    fn review(scope: HostnameCollisionScope) -> Review<'static> {
        let key = ObjectKey::namespaced("oil-dev", "web");
        Review { key, tenant: "oil", scope, added: [route("a.example")].into() }
    }

    #[test]
    fn scope_determines_which_ingresses_collide() {
        let (same, sibling, member, foreign, outside) = (
            (ObjectKey::namespaced("oil-dev", "web"), Some("oil")),
            (ObjectKey::namespaced("oil-dev", "other"), Some("oil")),
            (ObjectKey::namespaced("oil-prod", "web"), Some("oil")),
            (ObjectKey::namespaced("gas", "web"), Some("gas")),
            (ObjectKey::namespaced("default", "web"), None),
        );
        let all = [same, sibling, member, foreign, outside];
        for (scope, expected) in [
            (HostnameCollisionScope::Cluster, [false, true, true, true, false]),
            (HostnameCollisionScope::Tenant, [false, true, true, false, false]),
            (HostnameCollisionScope::Namespace, [false, true, false, false, false]),
            (HostnameCollisionScope::Disabled, [false; 5]),
        ] {
            let found = all.clone().map(|(key, tenant)| review(scope).covers(&key, tenant));
            assert_eq!(found, expected, "{scope:?}");
        }
    }

    #[test]
    fn largest_ingress_is_told_to_split() {
        let mut review = review(HostnameCollisionScope::Cluster);
        assert!(too_many(&review).message.contains("try again"));
        review.added = (0..=MAX_ROUTES).map(|index| route(&format!("host-{index}"))).collect();
        assert!(
            too_many(&review).message.contains("at most 2000 pairs of host name and path; split the Ingress")
        );
    }

    #[test]
    fn wildcards_collide_only_with_cluster_scope() {
        let keys = |scope, host: &str| review(scope).keys(&route(host));
        let exact = |host: &str| RouteKey::Exact(route(host));
        let cluster = HostnameCollisionScope::Cluster;
        assert_eq!(keys(cluster, "a.example"), [(exact("a.example"), false), (exact("*.example"), true)]);
        assert_eq!(
            keys(cluster, "*.example"),
            [(exact("*.example"), false), (RouteKey::CoveredBy(route("*.example")), true)]
        );
        assert_eq!(keys(HostnameCollisionScope::Tenant, "*.example"), [(exact("*.example"), false)]);
        assert_eq!(keys(cluster, ""), [(exact(""), false)]);
        let routes = [route("*.b"), route("a.b")].into();
        let expected = [exact("*.b"), exact("a.b"), RouteKey::CoveredBy(route("*.b"))];
        assert_eq!(route_keys(&routes), expected);
    }
}
