//! Contents of a Lease. The fields are those that client-go writes.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff::Timestamp,
};

use crate::{
    anchor::anchor_of,
    machine::{LeaseRecord, Write},
    timing::Timing,
};

/// Annotation of a Lease whose last holder released it after all its work had stopped. The next
/// holder removes it, so a Lease that is emptied by hand does not have it.
const RELEASED: &str = "ensemble.example.com/released";

/// Returns a Lease that has never been held, so the first candidate leads at once. Labels and
/// annotations do not matter to the election.
pub fn unused(name: &str, namespace: &str, labels: BTreeMap<String, String>) -> Lease {
    Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        spec: None,
    }
}

/// Returns the parts of a Lease that matter to the election. The anchor of a Lease that has one counts
/// as over: see [`record_with_anchor`].
pub fn record(lease: &Lease) -> LeaseRecord {
    record_with_anchor(lease, None)
}

/// Returns the parts of a Lease and of its anchor that matter to the election. `anchor` is the Lease
/// that [`anchor_name`](crate::anchor_name) names; `None` if it does not exist.
pub fn record_with_anchor(lease: &Lease, anchor: Option<&Lease>) -> LeaseRecord {
    let spec = lease.spec.clone().unwrap_or_default();
    let is_unused = spec == LeaseSpec::default();
    let is_marked = lease.metadata.annotations.iter().flatten().any(|(key, _)| key == RELEASED);
    let holder = spec.holder_identity.unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|seconds| seconds.try_into().ok()).unwrap_or_default();
    LeaseRecord {
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
        free: is_unused || (is_marked && holder.is_empty()),
        holder,
        duration: Duration::from_secs(seconds),
        anchor: anchor_of(lease, anchor),
    }
}

/// Creates the Leases that one candidate writes. Other labels, annotations, and fields stay.
pub struct Writer {
    identity: String,
    timing: Timing,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl Writer {
    /// Creates a writer. `identity` and `timing` must be those of the candidate's
    /// [`Machine`](crate::Machine).
    pub fn new(identity: impl Into<String>, timing: Timing) -> Self {
        let (labels, annotations) = Default::default();
        Self { identity: identity.into(), timing, labels, annotations }
    }

    /// Sets the labels that the Lease gets when this candidate acquires or renews it.
    #[must_use]
    pub fn with_labels(self, labels: BTreeMap<String, String>) -> Self {
        Self { labels, ..self }
    }

    /// Sets the annotations that the Lease gets when this candidate acquires or renews it.
    #[must_use]
    pub fn with_annotations(self, annotations: BTreeMap<String, String>) -> Self {
        Self { annotations, ..self }
    }

    /// Returns the Lease to send for a write. `last` is the Lease as it was last read or written, also
    /// if it has been deleted since. `unused` creates the Lease as it is deployed.
    ///
    /// Returns `None` if the version to replace is not the one of `last`: treat the write as
    /// [`Rejected`](crate::WriteResult::Rejected) then.
    pub fn desired(
        &self,
        write: &Write,
        last: Option<&Lease>,
        unused: impl FnOnce() -> Lease,
        now: Timestamp,
    ) -> Option<Lease> {
        let replaced = |version: &String| {
            last.filter(|lease| lease.metadata.resource_version.as_ref() == Some(version)).cloned()
        };
        Some(match write {
            Write::Create => self.unheld(unused()),
            Write::Recreate => self.recreate(unused(), last, now),
            Write::Acquire(version) | Write::Renew(version) => self.hold(replaced(version)?, now),
            Write::Release(version) => self.release(replaced(version)?, now),
        })
    }

    /// Returns an [unused](fn@unused) Lease changed into one without a holder that is not marked as
    /// released, so that it has to age.
    pub fn unheld(&self, mut unused: Lease) -> Lease {
        let spec = unused.spec.get_or_insert_default();
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = self.seconds();
        unused
    }

    /// Returns a deleted Lease with its former spec, renewed by this candidate. `before` is the Lease
    /// as it was last read or written.
    pub fn recreate(&self, mut unused: Lease, before: Option<&Lease>, now: Timestamp) -> Lease {
        unused.spec = before.and_then(|lease| lease.spec.clone());
        self.hold(unused, now)
    }

    /// Returns the Lease, acquired or renewed by this candidate. It keeps its resource version, which
    /// must be the one that [`Write`](crate::Write) names.
    pub fn hold(&self, mut lease: Lease, now: Timestamp) -> Lease {
        add(&mut lease.metadata.labels, &self.labels);
        add(&mut lease.metadata.annotations, &self.annotations);
        if let Some(annotations) = &mut lease.metadata.annotations {
            annotations.remove(RELEASED);
        }
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_ref() != Some(&self.identity) {
            spec.acquire_time = Some(MicroTime(now));
            let before = spec.lease_transitions.unwrap_or_default();
            spec.lease_transitions = Some(before.saturating_add(1));
        }
        spec.holder_identity = Some(self.identity.clone());
        spec.lease_duration_seconds = self.seconds();
        spec.renew_time = Some(MicroTime(now));
        lease
    }

    /// Returns the Lease, released, so that the next candidate leads immediately.
    pub fn release(&self, mut lease: Lease, now: Timestamp) -> Lease {
        let mark = (RELEASED.to_owned(), self.identity.clone());
        lease.metadata.annotations.get_or_insert_default().extend([mark]);
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(String::new());
        spec.renew_time = Some(MicroTime(now));
        lease
    }

    fn seconds(&self) -> Option<i32> {
        self.timing.lease().as_secs().try_into().ok()
    }
}

fn add(present: &mut Option<BTreeMap<String, String>>, wanted: &BTreeMap<String, String>) {
    if !wanted.is_empty() {
        present.get_or_insert_default().extend(wanted.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer(identity: &str) -> Writer {
        Writer::new(identity, Timing::default()).with_labels(labels())
    }

    fn labels() -> BTreeMap<String, String> {
        [("app.kubernetes.io/managed-by".to_owned(), "ensemble".to_owned())].into()
    }

    fn lease() -> Lease {
        unused("ensemble-podset", "ensemble-system", labels())
    }

    #[test]
    fn unused_or_released_lease_is_free() {
        let (identity, now) = (writer("identity"), Timestamp::UNIX_EPOCH);
        assert!(record(&lease()).free);
        assert!(!record(&identity.unheld(lease())).free, "it may have been deleted under a leader");
        let held = identity.hold(lease(), now);
        assert!(!record(&held).free);
        assert_eq!(record(&held).holder, "identity");
        let released = identity.release(held.clone(), now);
        assert!(record(&released).free);
        let held_again = writer("other").hold(released, now);
        let mut emptied = held_again.clone();
        emptied.spec.as_mut().unwrap().holder_identity = None;
        assert!(!record(&emptied).free, "the mark went with the next holder");
        let mut marked = held_again;
        marked.metadata.annotations.get_or_insert_default().insert(RELEASED.to_owned(), String::new());
        assert!(!record(&marked).free, "it has a holder");
    }

    #[test]
    fn writes_fields_like_client_go() {
        let moment = |second| Timestamp::from_second(second).unwrap();
        let held = writer("identity").hold(lease(), moment(1));
        let renewed = writer("identity").hold(held.clone(), moment(2)).spec.unwrap();
        assert_eq!(renewed.acquire_time, Some(MicroTime(moment(1))));
        assert_eq!(renewed.renew_time, Some(MicroTime(moment(2))));
        assert_eq!((renewed.lease_transitions, renewed.lease_duration_seconds), (Some(1), Some(15)));
        let taken = writer("other").hold(held, moment(3)).spec.unwrap();
        assert_eq!(taken.acquire_time, Some(MicroTime(moment(3))));
        assert_eq!((taken.lease_transitions, taken.holder_identity.as_deref()), (Some(2), Some("other")));
    }

    #[test]
    fn keeps_foreign_fields_of_lease() {
        let mut lease = lease();
        lease.metadata.annotations = Some([("note".to_owned(), "mine".to_owned())].into());
        lease.metadata.labels = Some([("team".to_owned(), "blue".to_owned())].into());
        let held = writer("identity").hold(lease, Timestamp::UNIX_EPOCH);
        assert_eq!(held.metadata.annotations.unwrap()["note"], "mine");
        let labels = held.metadata.labels.unwrap();
        assert_eq!(
            (labels["team"].as_str(), labels["app.kubernetes.io/managed-by"].as_str()),
            ("blue", "ensemble")
        );
    }

    #[test]
    fn adds_own_annotations_but_never_mark_of_release() {
        let own = [("system".to_owned(), "7".to_owned()), (RELEASED.to_owned(), "forged".to_owned())];
        let own = Writer::new("identity", Timing::default()).with_annotations(own.into());
        let held = own.hold(lease(), Timestamp::UNIX_EPOCH);
        assert_eq!(held.metadata.annotations, Some([("system".to_owned(), "7".to_owned())].into()));
        let released = own.release(held, Timestamp::UNIX_EPOCH).metadata.annotations.unwrap();
        assert_eq!((released["system"].as_str(), released[RELEASED].as_str()), ("7", "identity"));
    }

    #[test]
    fn sends_lease_that_the_write_names() {
        let (writer, now) = (writer("identity"), Timestamp::UNIX_EPOCH);
        let last = |version: &str| {
            let mut lease = writer.hold(lease(), now);
            lease.metadata.resource_version = Some(version.to_owned());
            lease
        };
        let desired = |write: &Write, last: Option<&Lease>| writer.desired(write, last, lease, now);
        let seven = "7".to_owned();
        assert_eq!(desired(&Write::Create, None), Some(writer.unheld(lease())));
        let recreated = desired(&Write::Recreate, Some(&last("7"))).unwrap();
        assert_eq!((&recreated.metadata.resource_version, &recreated.spec), (&None, &last("7").spec));
        for write in [Write::Acquire(seven.clone()), Write::Renew(seven.clone())] {
            assert_eq!(desired(&write, Some(&last("7"))), Some(last("7")));
            assert_eq!(desired(&write, Some(&last("8"))), None, "another version was read meanwhile");
            assert_eq!(desired(&write, None), None);
        }
        let released = desired(&Write::Release(seven.clone()), Some(&last("7"))).unwrap();
        assert!(record(&released).free);
        assert_eq!(desired(&Write::Release(seven), Some(&last("8"))), None);
    }

    #[test]
    fn ignores_invalid_numbers() {
        let mut lease = lease();
        lease.spec = Some(LeaseSpec { lease_duration_seconds: Some(-5), ..LeaseSpec::default() });
        assert_eq!(record(&lease).duration, Duration::ZERO);
        assert!(!record(&lease).free);
    }
}
