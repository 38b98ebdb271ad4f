//! Reservations within the namespace quota of a Tenant. Pure.
//!
//! Admission adds an entry to the Tenant's status before a namespace is created. The API server
//! accepts this update from one writer at a time. The quota therefore holds for concurrent creates
//! and several replicas.
//!
//! A reservation is valid for one minute. By then, either the namespace is known, or its creation
//! failed. Replicas do not compare clocks. Each replica measures how long it has observed an entry
//! unchanged, as in leader election with Leases.
//!
//! An entry is removed when it has expired and either the Tenant's status lists the namespace, or
//! the API server does not have it.
//!
//! The status must therefore never lose a namespace that exists. The cache of a new leader can be
//! older than the status. A name is removed from the status only after the API server has confirmed
//! that the namespace does not exist.

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use capsule::api::v1beta2::{Reservation, Tenant, TenantStatus};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::{SignedDuration, Timestamp},
};
use operator_core::kind::uid;

/// Validity of a reservation: longer than the API server takes for any request.
const RESERVATION_TTL: Duration = Duration::from_mins(1);

/// Decision whether a namespace fits into the quota.
#[derive(Debug, PartialEq)]
pub(crate) enum Decision {
    /// The Tenant has no quota, so no reservation is needed.
    Unlimited,
    /// The namespace fits once this status is written.
    Reserve(Box<TenantStatus>),
    /// The quota is used up.
    QuotaExceeded {
        /// Number of other namespaces and reservations.
        used: usize,
        /// Limit of namespaces.
        quota: usize,
    },
}

/// Names of the member namespaces of a Tenant, by source.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MemberNames<'m> {
    /// From a cache, which can be stale.
    Cached(&'m BTreeSet<String>),
    /// From the API server, listed before the Tenant was read.
    Live(&'m BTreeSet<String>),
}

/// Decides whether a namespace fits into the quota of a Tenant with these `members`. `is_expired`
/// returns whether a reservation has expired.
pub(crate) fn decide(
    tenant: &Tenant,
    members: MemberNames<'_>,
    namespace: &str,
    now: Timestamp,
    is_expired: impl Fn(&Reservation) -> bool,
) -> Decision {
    let Some(quota) = quota(tenant) else { return Decision::Unlimited };
    let status = tenant.status.clone().unwrap_or_default();
    let used = used(&status, members, namespace, &is_expired);
    if used >= quota {
        return Decision::QuotaExceeded { used, quota };
    }
    Decision::Reserve(Box::new(with_reservation(status, members, namespace, now, is_expired)))
}

/// Counts the other namespaces and reservations, each name once.
fn used(
    status: &TenantStatus,
    members: MemberNames<'_>,
    namespace: &str,
    is_expired: impl Fn(&Reservation) -> bool,
) -> usize {
    let (known, spaces): (_, &[_]) = match members {
        MemberNames::Cached(known) => (known, &status.spaces),
        // Namespaces in the status that the API server does not have no longer exist.
        MemberNames::Live(known) => (known, &[]),
    };
    // A cache does not show whether the namespace of an expired reservation was created.
    let counts = |entry: &&Reservation| matches!(members, MemberNames::Cached(_)) || !is_expired(entry);
    let reserved = status.reservations.iter().filter(counts).map(|entry| entry.namespace.as_str());
    let spaces = spaces.iter().map(|space| space.name.as_str());
    let mut names: BTreeSet<_> = known.iter().map(String::as_str).chain(spaces).chain(reserved).collect();
    names.remove(namespace);
    names.len()
}

/// Adds a reservation to the status and removes those that are obsolete.
fn with_reservation(
    mut status: TenantStatus,
    members: MemberNames<'_>,
    namespace: &str,
    now: Timestamp,
    is_expired: impl Fn(&Reservation) -> bool,
) -> TenantStatus {
    let spaces: BTreeSet<_> = status.spaces.iter().map(|space| space.name.clone()).collect();
    let is_settled = |name: &String| match members {
        MemberNames::Cached(_) => spaces.contains(name),
        MemberNames::Live(live) => spaces.contains(name) || !live.contains(name),
    };
    let before = status.reservations.iter().find(|entry| entry.namespace == namespace);
    // The new entry must differ from the old one, even if the clocks of the replicas differ.
    let after = before.map(|entry| later(entry.until.0, Duration::from_secs(1)));
    let until = Time(later(now, RESERVATION_TTL).max(after.unwrap_or(Timestamp::MIN)));
    status
        .reservations
        .retain(|entry| entry.namespace != namespace && !(is_expired(entry) && is_settled(&entry.namespace)));
    status.reservations.push(Reservation { namespace: namespace.to_owned(), until });
    status
}

fn later(now: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or_default();
    now.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// Returns the namespaces that the status lists and the cache lacks. They stay in the status until
/// the API server confirms that they do not exist. Returns none if the Tenant has no quota.
pub(crate) fn missing_from_cache<'m>(
    tenant: &Tenant,
    cached: impl Iterator<Item = &'m str>,
) -> BTreeSet<String> {
    if quota(tenant).is_none() {
        return BTreeSet::new();
    }
    let cached: BTreeSet<_> = cached.collect();
    let listed = tenant.status.iter().flat_map(|status| &status.spaces).map(|space| &space.name);
    listed.filter(|name| !cached.contains(name.as_str())).cloned().collect()
}

/// Returns the limit of namespaces of the Tenant.
pub(crate) fn quota(tenant: &Tenant) -> Option<usize> {
    let quota = tenant.spec.namespace_options.as_ref()?.quota?;
    Some(quota.try_into().unwrap_or_default())
}

/// Ages of reservations: when each entry was first observed unchanged, by the UID of its Tenant.
#[derive(Debug, Default)]
pub(crate) struct ReservationAges(HashMap<String, HashMap<Entry, Instant>>);

/// Namespace and timestamp of an entry. A changed timestamp makes it another entry.
type Entry = (String, Timestamp);

impl ReservationAges {
    /// Records the entries of a Tenant and drops those that it no longer has.
    pub(crate) fn observe(&mut self, tenant: &Tenant, now: Instant) {
        let entries = tenant.status.iter().flat_map(|status| &status.reservations);
        let before = self.0.remove(&uid(tenant)).unwrap_or_default();
        let first_seen = |entry| (before.get(&entry).copied().unwrap_or(now), entry);
        let entries: HashMap<_, _> =
            entries.map(key).map(first_seen).map(|(since, entry)| (entry, since)).collect();
        if !entries.is_empty() {
            self.0.insert(uid(tenant), entries);
        }
    }

    /// Removes a Tenant that no longer exists.
    pub(crate) fn remove(&mut self, tenant: &Tenant) {
        self.0.remove(&uid(tenant));
    }

    /// Returns whether an entry has been observed unchanged for its whole validity.
    pub(crate) fn is_expired(&self, tenant: &Tenant, entry: &Reservation, now: Instant) -> bool {
        let since = self.0.get(&uid(tenant)).and_then(|entries| entries.get(&key(entry)));
        since.is_some_and(|since| now.saturating_duration_since(*since) >= RESERVATION_TTL)
    }
}

fn key(entry: &Reservation) -> Entry {
    (entry.namespace.clone(), entry.until.0)
}

#[cfg(test)]
mod tests;
