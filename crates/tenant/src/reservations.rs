//! Reservations within a Tenant's quota of namespaces. Pure.
//!
//! A namespace is given a place before it is created, by an entry in the Tenant's status that the API server takes from
//! one writer at a time. So however many are created at once, by whichever replica they are admitted, there are never
//! more than the quota says. A place is given for a minute; by then the namespace is known, or was never created.
//!
//! Replicas do not compare their clocks: each measures by its own how long it has seen an entry unchanged, as leases are
//! judged. An entry is dropped when its minute is over and either the Tenant's status lists the namespace, or the API
//! server does not have it.
//!
//! The list in the status may therefore not fall behind: a new leader's cache may be older than the list. A name leaves the
//! list only after the API server, not a cache, has confirmed that the namespace is gone.

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::{SignedDuration, Timestamp},
};
use operator_core::kind::uid;

use crate::api::v1beta2::{Reservation, Tenant, TenantStatus};

/// For how long a place is given: longer than the API server takes for any request.
const LASTS: Duration = Duration::from_mins(1);

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

/// The names of the namespaces of a Tenant, as far as they are known.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Members<'m> {
    /// By a cache, which may be behind.
    Cached(&'m BTreeSet<String>),
    /// By the API server, before the Tenant was read.
    Live(&'m BTreeSet<String>),
}

/// Returns whether a Tenant has a place for a namespace beside its `members`. `is_over` says of an entry whether its time
/// is over.
pub(crate) fn place(
    tenant: &Tenant,
    members: Members<'_>,
    namespace: &str,
    now: Timestamp,
    is_over: impl Fn(&Reservation) -> bool,
) -> Place {
    let Some(quota) = quota(tenant) else { return Place::Given };
    let status = tenant.status.clone().unwrap_or_default();
    let taken = taken(&status, members, namespace, &is_over);
    if taken >= quota {
        return Place::None { taken, quota };
    }
    Place::Give(Box::new(with(status, members, namespace, now, is_over)))
}

/// Counts the namespaces and entries besides that of `namespace`, each name once.
fn taken(
    status: &TenantStatus,
    members: Members<'_>,
    namespace: &str,
    is_over: impl Fn(&Reservation) -> bool,
) -> usize {
    let (known, spaces): (_, &[_]) = match members {
        Members::Cached(known) => (known, &status.spaces),
        // What the status lists and the API server does not have is gone.
        Members::Live(known) => (known, &[]),
    };
    // A cache does not say whether a namespace that is reserved for long was created.
    let counts = |entry: &&Reservation| matches!(members, Members::Cached(_)) || !is_over(entry);
    let reserved = status.reservations.iter().filter(counts).map(|entry| entry.namespace.as_str());
    let spaces = spaces.iter().map(|space| space.name.as_str());
    let mut taken: BTreeSet<_> = known.iter().map(String::as_str).chain(spaces).chain(reserved).collect();
    taken.remove(namespace);
    taken.len()
}

/// The status with an entry for a namespace, and without those that are not needed any more.
fn with(
    mut status: TenantStatus,
    members: Members<'_>,
    namespace: &str,
    now: Timestamp,
    is_over: impl Fn(&Reservation) -> bool,
) -> TenantStatus {
    let spaces: BTreeSet<_> = status.spaces.iter().map(|space| space.name.clone()).collect();
    let is_settled = |name: &String| match members {
        Members::Cached(_) => spaces.contains(name),
        Members::Live(live) => spaces.contains(name) || !live.contains(name),
    };
    let before = status.reservations.iter().find(|entry| entry.namespace == namespace);
    // Always another entry, whatever the clocks of those who write it.
    let after = before.map(|entry| later(entry.until.0, Duration::from_secs(1)));
    let until = Time(later(now, LASTS).max(after.unwrap_or(Timestamp::MIN)));
    status
        .reservations
        .retain(|entry| entry.namespace != namespace && !(is_over(entry) && is_settled(&entry.namespace)));
    status.reservations.push(Reservation { namespace: namespace.to_owned(), until });
    status
}

fn later(now: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or_default();
    now.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// Returns the names that the status lists and a cache lacks, which must not leave the list until the API server confirms
/// that they are gone. None if there is no quota, because then nothing is counted.
pub(crate) fn unconfirmed<'m>(tenant: &Tenant, cached: impl Iterator<Item = &'m str>) -> BTreeSet<String> {
    if quota(tenant).is_none() {
        return BTreeSet::new();
    }
    let cached: BTreeSet<_> = cached.collect();
    let listed = tenant.status.iter().flat_map(|status| &status.spaces).map(|space| &space.name);
    listed.filter(|name| !cached.contains(name.as_str())).cloned().collect()
}

/// Returns how many namespaces the Tenant may have.
pub(crate) fn quota(tenant: &Tenant) -> Option<usize> {
    let quota = tenant.spec.namespace_options.as_ref()?.quota?;
    Some(quota.try_into().unwrap_or_default())
}

/// Since when each entry has been seen unchanged, by the UID of its Tenant.
#[derive(Debug, Default)]
pub(crate) struct Sightings(HashMap<String, HashMap<Entry, Instant>>);

/// Namespace and time of an entry, neither of which is judged.
type Entry = (String, Timestamp);

impl Sightings {
    /// Takes note of the entries that a Tenant has.
    pub(crate) fn observe(&mut self, tenant: &Tenant, now: Instant) {
        let entries = tenant.status.iter().flat_map(|status| &status.reservations);
        let before = self.0.remove(&uid(tenant)).unwrap_or_default();
        let seen = |entry| (before.get(&entry).copied().unwrap_or(now), entry);
        let entries: HashMap<_, _> =
            entries.map(key).map(seen).map(|(since, entry)| (entry, since)).collect();
        if !entries.is_empty() {
            self.0.insert(uid(tenant), entries);
        }
    }

    /// Forgets a Tenant that is gone.
    pub(crate) fn forget(&mut self, tenant: &Tenant) {
        self.0.remove(&uid(tenant));
    }

    /// Whether an entry has been seen unchanged for longer than a place is given.
    pub(crate) fn is_over(&self, tenant: &Tenant, entry: &Reservation, now: Instant) -> bool {
        let since = self.0.get(&uid(tenant)).and_then(|entries| entries.get(&key(entry)));
        since.is_some_and(|since| now.saturating_duration_since(*since) >= LASTS)
    }
}

fn key(entry: &Reservation) -> Entry {
    (entry.namespace.clone(), entry.until.0)
}

#[cfg(test)]
mod tests;
