//! How long the Leases have not changed, as far as this process knows.
//!
//! A replica that does not lead watches the Leases too. It knows their ages when it becomes the leader, so
//! that a failover need not wait for the Leases of the manager and of the primary one after the other.

use std::{collections::HashMap, sync::Arc, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use operator_core::{ObjectKey, informer::Change};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::timers::Timer;

/// When the versions of the Leases were first seen. Clones share them.
///
/// A version is seen after it was written, so a Lease is never younger than its age here.
#[derive(Clone, Default)]
pub(crate) struct LeaseAges(Arc<Mutex<HashMap<ObjectKey, Timer<Option<String>>>>>);

impl LeaseAges {
    /// Records a change of a Lease.
    pub(crate) fn record(&self, change: &Change<Lease>, now: Instant) {
        let mut timers = self.0.lock();
        match &change.new {
            Some(lease) => {
                let version = lease.metadata.resource_version.clone();
                timers.entry(change.key.clone()).or_default().observe(version, now);
            }
            None => drop(timers.remove(&change.key)),
        }
    }

    /// Returns how long this version of a Lease has been known.
    pub(crate) fn of(&self, key: &ObjectKey, version: &str, now: Instant) -> Duration {
        let timers = self.0.lock();
        timers.get(key).and_then(|timer| timer.age(&Some(version.to_owned()), now)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use kube::core::ObjectMeta;

    use super::*;

    #[test]
    fn age_counts_from_the_last_change() {
        let (ages, start) = (LeaseAges::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let key = ObjectKey::namespaced("shop", "db");
        let change = |version: Option<&str>, seconds| {
            let lease = |version: &str| {
                let metadata = ObjectMeta { resource_version: Some(version.into()), ..ObjectMeta::default() };
                Arc::new(Lease { metadata, ..Lease::default() })
            };
            ages.record(&Change { key: key.clone(), old: None, new: version.map(lease) }, at(seconds));
        };
        let age = |version, seconds| ages.of(&key, version, at(seconds)).as_secs();
        assert_eq!(age("1", 0), 0);
        change(Some("1"), 0);
        // A new subscriber, or a relist, delivers the same version again.
        change(Some("1"), 2);
        assert_eq!((age("1", 5), age("2", 5)), (5, 0));
        change(Some("2"), 6);
        assert_eq!((age("1", 8), age("2", 8)), (0, 2));
        change(None, 9);
        assert_eq!(age("2", 10), 0);
        assert!(ages.0.lock().is_empty());
    }
}
