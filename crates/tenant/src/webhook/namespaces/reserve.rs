//! Takes places within quotas of namespaces: the one thing that a review writes.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Instant,
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
    api::v1beta2::{Reservation, Tenant, TenantStatus},
    membership::{judge, named},
    namespaces::live_members,
    reservations::{Members, Place, Sightings, place, quota},
    webhook::lookups::Lookups,
};

/// Takes places.
pub(super) struct Reservations {
    writer: Client,
    tenants: Informer<Tenant>,
    members: Index<Namespace, String>,
    manager_namespace: String,
    turns: Turns,
    sightings: Arc<Mutex<Sightings>>,
    _observing: Subscription,
}

impl Reservations {
    pub(super) fn build(caches: &Caches<'_>, known: &Lookups) -> Self {
        let by_tenant = |namespace: &Namespace| named(&namespace.metadata);
        let sightings = Arc::<Mutex<Sightings>>::default();
        let seen = sightings.clone();
        let observe = move |change: &Change<Tenant>| match (&change.old, &change.new) {
            (_, Some(tenant)) => seen.lock().observe(tenant, Instant::now()),
            (Some(tenant), None) => seen.lock().forget(tenant),
            (None, None) => {}
        };
        Self {
            _observing: known.tenants().subscribe(observe),
            sightings,
            writer: caches.writer(),
            tenants: known.tenants().clone(),
            members: known.namespaces().store().index(by_tenant),
            manager_namespace: caches.manager_namespace().to_owned(),
            turns: Turns::default(),
        }
    }

    /// Takes a place for a namespace that is about to become part of the Tenant, or says why there is none. In a dry run
    /// it is only looked whether there is one.
    ///
    /// # Errors
    /// When the API server does not answer, or others are always faster.
    pub(super) async fn take(
        &self,
        tenant: Arc<Tenant>,
        namespace: &str,
        dry_run: bool,
    ) -> Result<Result<(), Denial>, BoxError> {
        if quota(&tenant).is_none() {
            return Ok(Ok(()));
        }
        let asked = Instant::now();
        let turn = self.turns.of(&tenant.name_any());
        let mut turn = turn.lock().await;
        let mut tenant = self.newest(tenant);
        let cached = self.cached_members(&tenant);
        let mut live: Option<Arc<BTreeSet<String>>> = None;
        // Others who write the status at the same time make progress with each round. The review's own time is the end.
        loop {
            let members = live.as_ref().map_or(Members::Cached(&cached), |live| Members::Live(live));
            match self.place(&tenant, members, namespace) {
                Place::Given => return Ok(Ok(())),
                Place::None { taken, quota } if live.is_some() => {
                    return Ok(Err(full(&tenant, namespace, taken, quota)));
                }
                // In this order: what is created before the Tenant is read again has a reservation.
                Place::None { .. } => live = Some(self.live_members(&tenant, &mut turn, asked).await?),
                Place::Give(_) if dry_run => return Ok(Ok(())),
                Place::Give(status) => {
                    if self.write(&tenant, *status).await? {
                        return Ok(Ok(()));
                    }
                }
            }
            match self.live(&tenant).await? {
                Some(live) => tenant = Arc::new(live),
                None => return Ok(Err(gone(&tenant, namespace))),
            }
        }
    }

    fn place(&self, tenant: &Tenant, members: Members<'_>, namespace: &str) -> Place {
        let now = Instant::now();
        let mut sightings = self.sightings.lock();
        sightings.observe(tenant, now);
        let is_over = |entry: &Reservation| sightings.is_over(tenant, entry, now);
        place(tenant, members, namespace, Timestamp::now(), is_over)
    }

    /// What this process knows of the Tenant, which may be its own last write.
    fn newest(&self, tenant: Arc<Tenant>) -> Arc<Tenant> {
        let newest = self.tenants.store().get(&ObjectKey::of(tenant.as_ref()));
        newest.filter(|newest| newest.uid() == tenant.uid()).unwrap_or(tenant)
    }

    /// The names of its namespaces, as the cache has them.
    fn cached_members(&self, tenant: &Tenant) -> BTreeSet<String> {
        let cached = self.members.get(&tenant.name_any());
        let is_member =
            |namespace: &Namespace| judge(&namespace.metadata, tenant, &self.manager_namespace).is_ok();
        let cached = cached.iter().filter(|namespace| is_member(namespace));
        cached.map(|namespace| namespace.name_any()).collect()
    }

    /// The names of its namespaces, as the API server had them at a moment after a review `asked`. Reviews that wait for
    /// their turn share what one of them has listed.
    async fn live_members(
        &self,
        tenant: &Tenant,
        turn: &mut Turn,
        asked: Instant,
    ) -> Result<Arc<BTreeSet<String>>, BoxError> {
        if let Some((_, members)) = turn.as_ref().filter(|(began, _)| *began >= asked) {
            return Ok(members.clone());
        }
        let began = Instant::now();
        let members = Arc::new(live_members(&self.writer, tenant, &self.manager_namespace).await?);
        *turn = Some((began, members.clone()));
        Ok(members)
    }

    async fn live(&self, tenant: &Tenant) -> Result<Option<Tenant>, BoxError> {
        let live = Api::<Tenant>::all(self.writer.clone()).get_opt(&tenant.name_any()).await?;
        Ok(live.filter(|live| live.uid() == tenant.uid()))
    }

    /// Writes the status unless the Tenant has changed. Says whether it did.
    async fn write(&self, tenant: &Tenant, status: TenantStatus) -> Result<bool, BoxError> {
        let mut tenant = tenant.clone();
        tenant.status = Some(status);
        let moment = self.tenants.store().now();
        let api = Api::<Tenant>::all(self.writer.clone());
        match api.replace_status(&tenant.name_any(), &PostParams::default(), &tenant).await {
            Ok(mut answer) => {
                answer.metadata.managed_fields = None;
                self.tenants.wrote(moment, answer);
                Ok(true)
            }
            Err(error) if is_conflict(&error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn full(tenant: &Tenant, namespace: &str, taken: usize, quota: usize) -> Denial {
    let name = tenant.name_any();
    Denial::forbidden(format!(
        "namespace {namespace}: Tenant {name} may have {quota} namespaces and has {taken}, with those that are just being \
         created; delete one, or ask an administrator to raise spec.namespaceOptions.quota of the Tenant"
    ))
}

fn gone(tenant: &Tenant, namespace: &str) -> Denial {
    Denial::forbidden(format!("namespace {namespace}: there is no Tenant {}", tenant.name_any()))
}

/// Lets the reviews of one process come one after the other where they concern the same Tenant, so that only other
/// replicas can be in the way.
#[derive(Default)]
struct Turns(Mutex<HashMap<String, Arc<tokio::sync::Mutex<Turn>>>>);

/// What was listed last and when that began, as long as reviews wait for their turn.
type Turn = Option<(Instant, Arc<BTreeSet<String>>)>;

impl Turns {
    fn of(&self, tenant: &str) -> Arc<tokio::sync::Mutex<Turn>> {
        let mut turns = self.0.lock();
        turns.retain(|name, turn| name == tenant || Arc::strong_count(turn) > 1);
        turns.entry(tenant.to_owned()).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn reviews_about_one_tenant_take_turns_and_leave_nothing_behind() {
        let turns = Turns::default();
        let (one, same, other) = (turns.of("oil"), turns.of("oil"), turns.of("gas"));
        let held = one.lock().await;
        assert!(same.try_lock().is_err());
        assert!(other.try_lock().is_ok());
        drop(held);
        assert!(same.try_lock().is_ok());
        drop((one, same, other));
        turns.of("coal");
        assert_eq!(turns.0.lock().len(), 1);
    }
}
