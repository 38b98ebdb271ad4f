//! Pods selected for deletion, until the cache confirms that they are gone.
//!
//! The response to a delete can be lost although the Pod is deleted. The cache can also show some
//! deleted Pods as gone and others as present. The remaining Pods then rank differently, and a new
//! selection could pick other Pods, so that more are deleted than are surplus. The selected Pods are
//! therefore recorded before the first delete is sent. Like the expectations of the ReplicaSet
//! controller, the record prevents more deletions because of a stale cache.
//!
//! The record never requires a deletion. If the surplus is smaller than the number of recorded Pods,
//! the Pods are listed live, and those that still exist are dropped from the record. A restart loses
//! only the record of requests whose responses are lost as well.

use std::collections::{HashMap, HashSet};

use operator_core::{kind::uid, pod::PodView};
use parking_lot::Mutex;

use crate::{
    api::PodSet,
    pod_cache::{CachedPod, is_active},
};

/// State of the deletion of one Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deletion {
    /// The first delete is in flight.
    Requested,
    /// A delete was sent, and its result is unknown.
    Unconfirmed,
    /// The Pod is deleted or terminating. The cache does not show it yet.
    Accepted,
}

/// Deletions by UID of the PodSet and UID of the Pod.
///
/// Empty except between a delete and the cache update that confirms it.
#[derive(Default)]
pub(crate) struct PendingDeletions {
    by_set: Mutex<HashMap<String, HashMap<String, Deletion>>>,
}

impl PendingDeletions {
    /// Drops the record of Pods that the cache shows as gone or terminating.
    ///
    /// `owned` are the Pods of the PodSet in the cache. Returns those without an accepted deletion.
    pub(crate) fn sync_with_cache(&self, set: &PodSet, mut owned: Vec<CachedPod>) -> Vec<CachedPod> {
        let set = uid(set);
        let mut by_set = self.by_set.lock();
        let Some(deletions) = by_set.get_mut(&set) else { return owned };
        let active: HashSet<_> =
            owned.iter().filter(|pod| is_active(pod)).map(|pod| uid(pod.as_ref())).collect();
        deletions.retain(|pod, _| active.contains(pod));
        owned.retain(|pod| deletions.get(&uid(pod.as_ref())) != Some(&Deletion::Accepted));
        if deletions.is_empty() {
            by_set.remove(&set);
        }
        owned
    }

    /// Returns whether the Pod was selected for deletion and the result is unknown.
    pub(crate) fn is_pending(&self, set: &PodSet, pod: &PodView) -> bool {
        let by_set = self.by_set.lock();
        let deletion = by_set.get(&uid(set)).and_then(|deletions| deletions.get(&uid(pod)));
        matches!(deletion, Some(Deletion::Requested | Deletion::Unconfirmed))
    }

    /// Records Pods before their deletes are sent.
    ///
    /// Drops the record of PodSets without Pods, because a deleted PodSet is not reconciled again.
    /// `has_pods` takes the UID of a PodSet.
    pub(crate) fn expect_deletions(&self, set: &PodSet, pods: &[CachedPod], has_pods: impl Fn(&str) -> bool) {
        if pods.is_empty() {
            return;
        }
        let mut by_set = self.by_set.lock();
        by_set.retain(|set, _| has_pods(set));
        let deletions = by_set.entry(uid(set)).or_default();
        for pod in pods {
            deletions
                .entry(uid(pod.as_ref()))
                .and_modify(|deletion| *deletion = Deletion::Unconfirmed)
                .or_insert(Deletion::Requested);
        }
    }

    /// Records that the API server accepted the delete.
    pub(crate) fn mark_accepted(&self, set: &PodSet, pod: &PodView) {
        if let Some(deletions) = self.by_set.lock().get_mut(&uid(set)) {
            deletions.insert(uid(pod), Deletion::Accepted);
        }
    }

    /// Drops the record of a Pod whose delete the API server rejected.
    ///
    /// The record stays if an earlier delete may have taken effect.
    pub(crate) fn mark_rejected(&self, set: &PodSet, pod: &PodView) {
        if let Some(deletions) = self.by_set.lock().get_mut(&uid(set)) {
            deletions.retain(|recorded, deletion| *recorded != uid(pod) || *deletion != Deletion::Requested);
        }
    }

    /// Resolves all unknown results with the UIDs of the live Pods.
    ///
    /// Drops the record of Pods that still exist, and marks the others as accepted.
    pub(crate) fn resolve(&self, set: &PodSet, live: &HashSet<String>) {
        if let Some(deletions) = self.by_set.lock().get_mut(&uid(set)) {
            deletions.retain(|pod, deletion| *deletion == Deletion::Accepted || !live.contains(pod));
            for deletion in deletions.values_mut() {
                *deletion = Deletion::Accepted;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kube::ResourceExt;
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::{
        api::PodSetSpec,
        plan::{needs_live_list, plan},
        testing::pod as cached_pod,
    };

    /// Result of a delete request.
    #[derive(Clone, Copy, Debug)]
    enum DeleteResult {
        Accepted,
        ResponseLost,
        RequestLost,
        Rejected,
    }

    /// Conditions of one reconcile. The lists are repeated as needed.
    #[derive(Debug)]
    struct Round {
        replicas: i32,
        /// Node and readiness of each Pod, which determine the ranks.
        pods: Vec<(u8, bool)>,
        /// Whether the cache shows a deleted Pod as gone.
        cache_updates: Vec<bool>,
        deletes: Vec<DeleteResult>,
    }

    /// Cluster with one PodSet, and the cache of its controller.
    struct Simulation {
        pending_deletions: PendingDeletions,
        set: PodSet,
        created: usize,
        /// The UIDs of the Pods that exist.
        live: HashSet<String>,
        /// The Pods in the cache, by UID.
        cache: BTreeMap<String, CachedPod>,
    }

    impl Simulation {
        fn with_pods(pods: usize) -> Self {
            let mut set = PodSet::new("web", PodSetSpec::default());
            set.metadata.uid = Some("uid-set".into());
            let mut simulation = Self {
                pending_deletions: PendingDeletions::default(),
                set,
                created: 0,
                live: HashSet::new(),
                cache: BTreeMap::new(),
            };
            for number in 1..=pods {
                simulation.create(format!("web-pod-{number}"));
            }
            simulation
        }

        fn create(&mut self, name: String) {
            self.created += 1;
            let pod = cached_pod(self.created, |pod| pod.metadata.name = Some(name.clone()));
            self.live.insert(uid(pod.as_ref()));
            self.cache.insert(uid(pod.as_ref()), pod);
        }

        fn owned(&self) -> Vec<CachedPod> {
            self.pending_deletions.sync_with_cache(&self.set, self.cache.values().cloned().collect())
        }

        /// Reconciles the PodSet as the controller does. Returns the number of Pods created.
        fn reconcile(&mut self, round: &Round) -> usize {
            self.set.spec.replicas = round.replicas;
            let (live, mut cache_updates) = (self.live.clone(), round.cache_updates.iter().cycle());
            self.cache.retain(|pod, _| live.contains(pod) || !cache_updates.next().unwrap());
            for (pod, (node, ready)) in self.cache.values_mut().zip(round.pods.iter().cycle()) {
                let pod = std::sync::Arc::make_mut(pod);
                pod.node = node.to_string();
                pod.ready_since = ready.then_some(k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
            }
            let is_pending = |pod: &PodView| self.pending_deletions.is_pending(&self.set, pod);
            if needs_live_list(&self.set, &self.owned(), is_pending) {
                self.pending_deletions.resolve(&self.set, &self.live);
            }
            let name_exists = |name: &str| self.cache.values().any(|pod| pod.name_any() == name);
            let plan = plan(&self.set, &self.owned(), name_exists, is_pending);
            self.pending_deletions.expect_deletions(&self.set, &plan.delete, |_| true);
            for (pod, result) in plan.delete.iter().zip(round.deletes.iter().cycle()) {
                let existed = self.live.contains(&uid(pod.as_ref()));
                match result {
                    DeleteResult::Accepted | DeleteResult::ResponseLost => {
                        self.live.remove(&uid(pod.as_ref()))
                    }
                    DeleteResult::RequestLost | DeleteResult::Rejected => false,
                };
                match result {
                    DeleteResult::Accepted if existed => {
                        self.pending_deletions.mark_accepted(&self.set, pod);
                    }
                    DeleteResult::Rejected if existed => {
                        self.pending_deletions.mark_rejected(&self.set, pod);
                    }
                    _ => (),
                }
            }
            let created = plan.create.len();
            for name in plan.create {
                self.create(name);
            }
            created
        }
    }

    fn rounds() -> impl Strategy<Value = Round> {
        let result = prop_oneof![
            Just(DeleteResult::Accepted),
            Just(DeleteResult::ResponseLost),
            Just(DeleteResult::RequestLost),
            Just(DeleteResult::Rejected)
        ];
        let lists = (vec((0..3_u8, any::<bool>()), 1..12), vec(any::<bool>(), 1..12), vec(result, 1..12));
        (1..=10_i32, lists).prop_map(|(replicas, (pods, cache_updates, deletes))| Round {
            replicas,
            pods,
            cache_updates,
            deletes,
        })
    }

    #[test]
    fn never_deletes_more_than_the_surplus() {
        proptest!(|(pods in 0..=10_usize, rounds in vec(rounds(), 1..10))| {
            let mut simulation = Simulation::with_pods(pods);
            for round in &rounds {
                let (before, desired) = (simulation.live.len(), usize::try_from(round.replicas).unwrap());
                let created = simulation.reconcile(round);
                let after = simulation.live.len();
                prop_assert!(after >= before.min(desired), "{before} Pods of {desired} became {after}");
                prop_assert!(after <= before.max(desired), "{before} Pods of {desired} became {after}");
                prop_assert!(created == 0 || after == desired, "{created} created, {after} of {desired}");
            }
            let last = rounds.last().unwrap();
            let (replicas, pods) = (last.replicas, last.pods.clone());
            let healthy = Round { replicas, pods, cache_updates: vec![true], deletes: vec![DeleteResult::Accepted] };
            for _ in 0..3 {
                simulation.reconcile(&healthy);
            }
            prop_assert_eq!(i32::try_from(simulation.live.len()), Ok(replicas));
            prop_assert!(simulation.pending_deletions.by_set.lock().is_empty());
        });
    }

    #[test]
    fn rejected_delete_is_dropped_unless_an_earlier_one_is_unconfirmed() {
        let (pending, set) = (PendingDeletions::default(), Simulation::with_pods(1).set);
        let pod = cached_pod(1, |_| ());
        let expect = || pending.expect_deletions(&set, std::slice::from_ref(&pod), |_| true);
        expect();
        assert!(pending.is_pending(&set, &pod));
        pending.mark_rejected(&set, &pod);
        assert!(!pending.is_pending(&set, &pod));
        expect();
        expect();
        pending.mark_rejected(&set, &pod);
        assert!(pending.is_pending(&set, &pod), "the earlier delete may have taken effect");
    }

    #[test]
    fn record_of_a_deleted_podset_is_dropped() {
        let (pending, set) = (PendingDeletions::default(), Simulation::with_pods(1).set);
        let pod = cached_pod(1, |_| ());
        let mut other = set.clone();
        other.metadata.uid = Some("uid-other".into());
        pending.expect_deletions(&set, std::slice::from_ref(&pod), |_| true);
        pending.expect_deletions(&other, std::slice::from_ref(&pod), |set| set == "uid-other");
        assert_eq!(pending.by_set.lock().keys().collect::<Vec<_>>(), ["uid-other"]);
        assert_eq!(pending.sync_with_cache(&other, Vec::new()), []);
        assert!(pending.by_set.lock().is_empty());
    }
}
