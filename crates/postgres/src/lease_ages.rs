//! How long the Leases have not changed, as far as this process knows, and which of them expire.
//!
//! A replica that does not lead watches the Leases too. It knows their ages when it becomes the leader, so
//! that a failover need not wait for the Leases of the manager and of the primary one after the other.
//!
//! Renewals reconcile nothing. A cluster is reconciled when its Lease has not been renewed in time.

use std::{collections::HashMap, future::pending, sync::Arc, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use operator_core::{ObjectKey, informer::Change};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use crate::timers::Timer;

/// When the versions of the Leases were first seen. Clones share them.
///
/// A version is seen after it was written, so a Lease is never younger than its age here.
#[derive(Clone, Default)]
pub(crate) struct LeaseAges(Arc<Shared>);

#[derive(Default)]
struct Shared {
    leases: Mutex<HashMap<ObjectKey, Known>>,
    /// A Lease may expire before the next one that was known to.
    earlier: Notify,
}

/// What is known of a Lease.
#[derive(Default)]
struct Known {
    version: Timer<Option<String>>,
    /// The age at which the cluster of this Lease is reconciled.
    awaited_age: Option<Duration>,
}

impl Known {
    /// Returns when this version reaches the awaited age.
    fn expiry(&self) -> Option<Instant> {
        self.version.since()?.checked_add(self.awaited_age?)
    }
}

impl LeaseAges {
    /// Records a change of a Lease.
    pub(crate) fn record(&self, change: &Change<Lease>, now: Instant) {
        let mut leases = self.0.leases.lock();
        let Some(lease) = &change.new else {
            leases.remove(&change.key);
            return;
        };
        let known = leases.entry(change.key.clone()).or_default();
        let was_expired = known.expiry().is_some_and(|at| at <= now);
        // A new subscriber, or a relist, delivers the same version again.
        known.version.observe(lease.metadata.resource_version.clone(), now);
        if was_expired {
            self.0.earlier.notify_one();
        }
    }

    /// Returns how long this version of a Lease has been known.
    pub(crate) fn of(&self, key: &ObjectKey, version: &str, now: Instant) -> Duration {
        let leases = self.0.leases.lock();
        let known = leases.get(key);
        known.and_then(|known| known.version.age(&Some(version.to_owned()), now)).unwrap_or_default()
    }

    /// Reconciles the cluster of a Lease when the present version, or a later one, reaches this age. A version
    /// that has reached it already reconciles nothing.
    pub(crate) fn await_age(&self, key: &ObjectKey, version: &str, age: Duration, now: Instant) {
        let mut leases = self.0.leases.lock();
        let known = leases.entry(key.clone()).or_default();
        // The cache can have a Lease before its change is recorded.
        if known.version.since().is_none() {
            known.version.observe(Some(version.to_owned()), now);
        }
        if known.awaited_age.replace(age) != Some(age) {
            self.0.earlier.notify_one();
        }
    }

    /// Calls `reconcile` with each Lease that reaches the awaited age, once for each version. Never returns.
    pub(crate) async fn reconcile_expired(self, reconcile: impl Fn(ObjectKey)) {
        let mut last = Instant::now();
        loop {
            let now = Instant::now();
            let (expired, next) = self.expired(last, now);
            last = now;
            for key in expired {
                reconcile(key);
            }
            let expiry = async {
                match next {
                    Some(at) => sleep_until(at).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = expiry => {}
                () = self.0.earlier.notified() => {}
            }
        }
    }

    /// Returns the Leases that have reached the awaited age after `last`, and when the next one does unless it is
    /// renewed.
    fn expired(&self, last: Instant, now: Instant) -> (Vec<ObjectKey>, Option<Instant>) {
        let leases = self.0.leases.lock();
        let expiries = || leases.iter().filter_map(|(key, known)| Some((key, known.expiry()?)));
        let expired = expiries().filter(|(_, at)| (last < *at) && (*at <= now)).map(|(key, _)| key.clone());
        (expired.collect(), expiries().map(|(_, at)| at).filter(|at| now < *at).min())
    }
}

/// Returns whether a change of a Lease tells only that its holder is alive.
pub(crate) fn is_renewal(change: &Change<Lease>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return false };
    let others = |lease: &Lease| {
        let mut lease = lease.clone();
        lease.metadata.resource_version = None;
        lease.metadata.managed_fields = None;
        if let Some(spec) = &mut lease.spec {
            spec.renew_time = None;
        }
        lease
    };
    others(old) == others(new)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{
        api::coordination::v1::LeaseSpec, apimachinery::pkg::apis::meta::v1::MicroTime, jiff::Timestamp,
    };
    use kube::core::ObjectMeta;
    use tokio::{
        sync::mpsc,
        time::{sleep, timeout},
    };
    use tokio_util::task::AbortOnDropHandle;

    use super::*;

    fn key() -> ObjectKey {
        ObjectKey::namespaced("shop", "db")
    }

    fn lease(version: &str) -> Lease {
        let metadata = ObjectMeta { resource_version: Some(version.into()), ..ObjectMeta::default() };
        Lease { metadata, spec: Some(LeaseSpec::default()) }
    }

    fn change(old: Option<Lease>, new: Option<Lease>) -> Change<Lease> {
        Change { key: key(), old: old.map(Arc::new), new: new.map(Arc::new) }
    }

    #[test]
    fn age_counts_from_the_last_change() {
        let (ages, start) = (LeaseAges::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let record = |version: Option<&str>, seconds| {
            ages.record(&change(None, version.map(lease)), at(seconds));
        };
        let age = |version, seconds| ages.of(&key(), version, at(seconds)).as_secs();
        assert_eq!(age("1", 0), 0);
        record(Some("1"), 0);
        record(Some("1"), 2);
        assert_eq!((age("1", 5), age("2", 5)), (5, 0));
        record(Some("2"), 6);
        assert_eq!((age("1", 8), age("2", 8)), (0, 2));
        record(None, 9);
        assert_eq!(age("2", 10), 0);
        assert!(ages.0.leases.lock().is_empty());
    }

    #[test]
    fn lease_that_is_not_renewed_expires_once() {
        let (ages, start) = (LeaseAges::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let expired = |last, now| ages.expired(at(last), at(now));
        ages.record(&change(None, Some(lease("1"))), at(0));
        assert_eq!(expired(0, 99), (vec![], None), "nobody waits");
        let await_age = |version, seconds| {
            ages.await_age(&key(), version, Duration::from_secs(15), at(seconds));
        };
        await_age("1", 3);
        assert_eq!(expired(3, 14), (vec![], Some(at(15))));
        ages.record(&change(None, Some(lease("2"))), at(14));
        assert_eq!(expired(14, 15), (vec![], Some(at(29))), "it was renewed");
        assert_eq!(expired(15, 29), (vec![key()], None));
        assert_eq!(expired(29, 30), (vec![], None));
        await_age("2", 31);
        assert_eq!(expired(30, 31), (vec![], None), "the reconcile has seen it");
        ages.record(&change(None, Some(lease("3"))), at(32));
        assert_eq!(expired(31, 33), (vec![], Some(at(47))), "the cache was late");
        ages.record(&change(None, None), at(40));
        assert_eq!(expired(33, 99), (vec![], None));
        await_age("4", 100);
        assert_eq!(expired(99, 100), (vec![], Some(at(115))), "the cache was faster than the change");
    }

    #[tokio::test(start_paused = true)]
    async fn cluster_is_reconciled_at_each_expiry_of_its_lease() {
        let (ages, start) = (LeaseAges::default(), Instant::now());
        let (sender, mut expired) = mpsc::unbounded_channel();
        let minute = Duration::from_mins(1);
        let reconcile = move |key| sender.send((key, start.elapsed().as_secs())).unwrap();
        let _task = AbortOnDropHandle::new(tokio::spawn(ages.clone().reconcile_expired(reconcile)));
        let renew = |version| ages.record(&change(None, Some(lease(version))), Instant::now());
        renew("1");
        ages.await_age(&key(), "1", Duration::from_secs(15), Instant::now());
        sleep(Duration::from_secs(10)).await;
        renew("2");
        assert_eq!(timeout(minute, expired.recv()).await.unwrap(), Some((key(), 25)));
        // The reconcile finds in the API server that the Lease was renewed, and the cache learns it later.
        ages.await_age(&key(), "2", Duration::from_secs(15), Instant::now());
        sleep(Duration::from_secs(5)).await;
        renew("3");
        let next = timeout(minute, expired.recv()).await.unwrap();
        assert_eq!(next, Some((key(), 45)), "nobody had to await the age of version 3");
        assert!(expired.is_empty());
    }

    #[test]
    fn only_the_time_of_a_renewal_changes() {
        let renewed = |version, second| {
            let mut lease = lease(version);
            let time = MicroTime(Timestamp::from_second(second).unwrap());
            lease.spec.as_mut().unwrap().renew_time = Some(time);
            lease
        };
        assert!(is_renewal(&change(Some(renewed("1", 5)), Some(renewed("2", 10)))));
        let mut other = renewed("2", 10);
        other.spec.as_mut().unwrap().holder_identity = Some("db-2".to_owned());
        assert!(!is_renewal(&change(Some(renewed("1", 5)), Some(other))));
        let mut other = renewed("2", 10);
        other.metadata.annotations = Some([("epoch".to_owned(), "2".to_owned())].into());
        assert!(!is_renewal(&change(Some(renewed("1", 5)), Some(other))));
        assert!(!is_renewal(&change(None, Some(renewed("1", 5)))));
        assert!(!is_renewal(&change(Some(renewed("1", 5)), None)));
    }
}
