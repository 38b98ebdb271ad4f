//! Reserves namespaces within the namespace quota of a Tenant. Only this part of the webhooks
//! writes to the API server.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Instant,
};

use capsule::{
    api::v1beta2::{Reservation, Tenant, TenantStatus},
    membership::{check_membership, referenced_tenants},
};
use k8s_openapi::{api::core::v1::Namespace, jiff::Timestamp};
use kube::{Api, Client, ResourceExt, api::PostParams};
use operator_core::{
    ObjectKey,
    admission::{BoxError, Caches, Denial},
    error::is_conflict,
    informer::{Change, Index, Informer, Subscription},
};
use parking_lot::Mutex;

use crate::{
    namespaces::list_members,
    reservations::{Decision, MemberNames, ReservationAges, decide, quota},
    webhook::lookups::Lookups,
};

/// Writes reservations into the status of Tenants.
pub(super) struct QuotaReservations {
    writer: Client,
    tenants: Informer<Tenant>,
    members: Index<Namespace, String>,
    manager_namespace: String,
    locks: TenantLocks,
    sightings: Arc<Mutex<ReservationAges>>,
    _subscription: Subscription,
}

impl QuotaReservations {
    pub(super) fn build(caches: &Caches<'_>, lookups: &Lookups) -> Self {
        let by_tenant = |namespace: &Namespace| referenced_tenants(&namespace.metadata);
        let sightings = Arc::<Mutex<ReservationAges>>::default();
        let observed = sightings.clone();
        let observe = move |change: &Change<Tenant>| match (&change.old, &change.new) {
            (_, Some(tenant)) => observed.lock().observe(tenant, Instant::now()),
            (Some(tenant), None) => observed.lock().remove(tenant),
            (None, None) => {}
        };
        Self {
            _subscription: lookups.tenants().subscribe(observe),
            sightings,
            writer: caches.writer(),
            tenants: lookups.tenants().clone(),
            members: lookups.namespaces().store().index(by_tenant),
            manager_namespace: caches.manager_namespace().to_owned(),
            locks: TenantLocks::default(),
        }
    }

    /// Reserves a namespace that joins the Tenant, or returns a denial if the quota is used up. A
    /// dry run only checks the quota.
    ///
    /// # Errors
    /// Returns an error if a request to the API server fails.
    pub(super) async fn reserve(
        &self,
        tenant: Arc<Tenant>,
        namespace: &str,
        dry_run: bool,
    ) -> Result<Result<(), Denial>, BoxError> {
        if quota(&tenant).is_none() {
            return Ok(Ok(()));
        }
        let started = Instant::now();
        let lock = self.locks.get(&tenant.name_any());
        let mut last_list = lock.lock().await;
        let mut tenant = self.newest(tenant);
        let cached = self.cached_members(&tenant);
        let mut live: Option<Arc<BTreeSet<String>>> = None;
        // On a conflict, another writer made progress. The timeout of the review ends the loop.
        loop {
            let members = live.as_ref().map_or(MemberNames::Cached(&cached), |live| MemberNames::Live(live));
            match self.decide(&tenant, members, namespace) {
                Decision::Unlimited => return Ok(Ok(())),
                Decision::QuotaExceeded { used, quota } if live.is_some() => {
                    return Ok(Err(quota_exceeded(&tenant, namespace, used, quota)));
                }
                // The order matters: a namespace that is created before the Tenant is read again
                // has a reservation.
                Decision::QuotaExceeded { .. } => {
                    live = Some(self.live_members(&tenant, &mut last_list, started).await?);
                }
                Decision::Reserve(_) if dry_run => return Ok(Ok(())),
                Decision::Reserve(status) => {
                    if self.write(&tenant, *status).await? {
                        return Ok(Ok(()));
                    }
                }
            }
            match self.live(&tenant).await? {
                Some(live) => tenant = Arc::new(live),
                None => return Ok(Err(tenant_not_found(&tenant, namespace))),
            }
        }
    }

    fn decide(&self, tenant: &Tenant, members: MemberNames<'_>, namespace: &str) -> Decision {
        let now = Instant::now();
        let mut sightings = self.sightings.lock();
        sightings.observe(tenant, now);
        let is_expired = |entry: &Reservation| sightings.is_expired(tenant, entry, now);
        decide(tenant, members, namespace, Timestamp::now(), is_expired)
    }

    /// Returns the Tenant from the cache, which contains the last write of this process.
    fn newest(&self, tenant: Arc<Tenant>) -> Arc<Tenant> {
        let newest = self.tenants.store().get(&ObjectKey::of(tenant.as_ref()));
        newest.filter(|newest| newest.uid() == tenant.uid()).unwrap_or(tenant)
    }

    /// Returns the names of its namespaces from the cache.
    fn cached_members(&self, tenant: &Tenant) -> BTreeSet<String> {
        let cached = self.members.get(&tenant.name_any());
        let is_member = |namespace: &Namespace| {
            check_membership(&namespace.metadata, tenant, &self.manager_namespace).is_ok()
        };
        let cached = cached.iter().filter(|namespace| is_member(namespace));
        cached.map(|namespace| namespace.name_any()).collect()
    }

    /// Returns the names of its namespaces from the API server, not older than `started`. Reviews
    /// that wait for the lock share one list.
    async fn live_members(
        &self,
        tenant: &Tenant,
        last_list: &mut LastList,
        started: Instant,
    ) -> Result<Arc<BTreeSet<String>>, BoxError> {
        if let Some((_, members)) = last_list.as_ref().filter(|(began, _)| *began >= started) {
            return Ok(members.clone());
        }
        let began = Instant::now();
        let members = Arc::new(list_members(&self.writer, tenant, &self.manager_namespace).await?);
        *last_list = Some((began, members.clone()));
        Ok(members)
    }

    async fn live(&self, tenant: &Tenant) -> Result<Option<Tenant>, BoxError> {
        let live = Api::<Tenant>::all(self.writer.clone()).get_opt(&tenant.name_any()).await?;
        Ok(live.filter(|live| live.uid() == tenant.uid()))
    }

    /// Writes the status. Returns false on a conflict.
    async fn write(&self, tenant: &Tenant, status: TenantStatus) -> Result<bool, BoxError> {
        let mut tenant = tenant.clone();
        tenant.status = Some(status);
        let moment = self.tenants.store().epoch();
        let api = Api::<Tenant>::all(self.writer.clone());
        match api.replace_status(&tenant.name_any(), &PostParams::default(), &tenant).await {
            Ok(mut answer) => {
                answer.metadata.managed_fields = None;
                self.tenants.record_write(moment, answer);
                Ok(true)
            }
            Err(error) if is_conflict(&error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn quota_exceeded(tenant: &Tenant, namespace: &str, taken: usize, quota: usize) -> Denial {
    let name = tenant.name_any();
    Denial::forbidden(format!(
        "namespace {namespace}: Tenant {name} may have {quota} namespaces and has {taken}, including those that are being \
         created; delete one, or ask an administrator to raise spec.namespaceOptions.quota of the Tenant"
    ))
}

fn tenant_not_found(tenant: &Tenant, namespace: &str) -> Denial {
    Denial::forbidden(format!("namespace {namespace}: Tenant {} does not exist", tenant.name_any()))
}

/// One lock for each Tenant. Reviews of the same Tenant run one after the other in a process, so
/// that conflicts come only from other replicas and the controller.
#[derive(Default)]
struct TenantLocks(Mutex<HashMap<String, Arc<tokio::sync::Mutex<LastList>>>>);

/// The start time and result of the last list, while reviews wait for the lock.
type LastList = Option<(Instant, Arc<BTreeSet<String>>)>;

impl TenantLocks {
    /// Returns the lock of a Tenant. Removes unused locks of other Tenants.
    fn get(&self, tenant: &str) -> Arc<tokio::sync::Mutex<LastList>> {
        let mut locks = self.0.lock();
        locks.retain(|name, lock| name == tenant || Arc::strong_count(lock) > 1);
        locks.entry(tenant.to_owned()).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn locks_each_tenant_and_removes_unused_locks() {
        let locks = TenantLocks::default();
        let (one, same, other) = (locks.get("oil"), locks.get("oil"), locks.get("gas"));
        let held = one.lock().await;
        assert!(same.try_lock().is_err());
        assert!(other.try_lock().is_ok());
        drop(held);
        assert!(same.try_lock().is_ok());
        drop((one, same, other));
        locks.get("coal");
        assert_eq!(locks.0.lock().len(), 1);
    }
}
