//! Surplus pods that were chosen to go, remembered until the cache shows them go.
//!
//! The answer to a delete may be lost though the pod goes, and the cache may show some pods of a surplus gone while it
//! still shows others. What is left then ranks differently than before, so a new choice may fall on other pods, and
//! more would go than were surplus. Which pods were chosen is therefore kept from before the first delete is sent.
//!
//! Nothing here decides that a pod must go: where the surplus is smaller than what was chosen, the pods are looked up
//! live, and those that are still there are forgotten. So a restart loses nothing but the memory of requests whose
//! answers it has lost too.

use std::collections::{HashMap, HashSet};

use operator_core::{kind::uid, pod::PodView};
use parking_lot::Mutex;

use crate::{
    api::PodSet,
    observe::{KnownPod, is_active},
};

/// What is known of a pod that was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The first delete is on its way.
    Asked,
    /// A delete was sent and its outcome is not known.
    InDoubt,
    /// It is deleted, or on its way out; the cache does not show it yet.
    Going,
}

/// The pods that were chosen, by UID, of each PodSet, by UID. Empty but for the time between a delete and the news of it.
#[derive(Default)]
pub(crate) struct PendingDeletions {
    of_sets: Mutex<HashMap<String, HashMap<String, Fate>>>,
}

impl PendingDeletions {
    /// Forgets the pods of the PodSet that are gone or on their way out in the cache, whose pods `owned` are; returns
    /// those that are not known to go.
    pub(crate) fn without_going(&self, set: &PodSet, mut owned: Vec<KnownPod>) -> Vec<KnownPod> {
        let set = uid(set);
        let mut of_sets = self.of_sets.lock();
        let Some(chosen) = of_sets.get_mut(&set) else { return owned };
        let active: HashSet<_> =
            owned.iter().filter(|pod| is_active(pod)).map(|pod| uid(pod.as_ref())).collect();
        chosen.retain(|pod, _| active.contains(pod));
        owned.retain(|pod| chosen.get(&uid(pod.as_ref())) != Some(&Fate::Going));
        if chosen.is_empty() {
            of_sets.remove(&set);
        }
        owned
    }

    /// Whether the pod was chosen and may have gone since.
    pub(crate) fn may_have_gone(&self, set: &PodSet, pod: &PodView) -> bool {
        let of_sets = self.of_sets.lock();
        let fate = of_sets.get(&uid(set)).and_then(|chosen| chosen.get(&uid(pod)));
        matches!(fate, Some(Fate::Asked | Fate::InDoubt))
    }

    /// Remembers pods before their deletes are sent. Forgets PodSets of which `has_pods` says that they have none, by
    /// UID: those that are gone themselves are not visited any more.
    pub(crate) fn ask(&self, set: &PodSet, pods: &[KnownPod], has_pods: impl Fn(&str) -> bool) {
        if pods.is_empty() {
            return;
        }
        let mut of_sets = self.of_sets.lock();
        of_sets.retain(|set, _| has_pods(set));
        let chosen = of_sets.entry(uid(set)).or_default();
        for pod in pods {
            chosen.entry(uid(pod.as_ref())).and_modify(|fate| *fate = Fate::InDoubt).or_insert(Fate::Asked);
        }
    }

    /// The API server has taken the delete.
    pub(crate) fn goes(&self, set: &PodSet, pod: &PodView) {
        if let Some(chosen) = self.of_sets.lock().get_mut(&uid(set)) {
            chosen.insert(uid(pod), Fate::Going);
        }
    }

    /// The API server has refused the delete, so that one did nothing. The pod is as good as any other again, unless an
    /// earlier delete may have reached it.
    pub(crate) fn declined(&self, set: &PodSet, pod: &PodView) {
        if let Some(chosen) = self.of_sets.lock().get_mut(&uid(set)) {
            chosen.retain(|known, fate| *known != uid(pod) || *fate != Fate::Asked);
        }
    }

    /// Ends all doubt about the PodSet's pods: those that are `live`, by UID, stay, the others go.
    pub(crate) fn settle(&self, set: &PodSet, live: &HashSet<String>) {
        if let Some(chosen) = self.of_sets.lock().get_mut(&uid(set)) {
            chosen.retain(|pod, fate| *fate == Fate::Going || !live.contains(pod));
            for fate in chosen.values_mut() {
                *fate = Fate::Going;
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
        plan::{is_in_doubt, plan},
        testing::pod as changed,
    };

    /// What becomes of a delete.
    #[derive(Clone, Copy, Debug)]
    enum Sent {
        Answered,
        AnswerLost,
        RequestLost,
        Declined,
    }

    /// What is so when the PodSet is visited; the lists are used in a circle.
    #[derive(Debug)]
    struct Visit {
        replicas: i32,
        /// Node and readiness of each pod, of which the ranks depend.
        pods: Vec<(u8, bool)>,
        /// Which of the pods that have gone the cache shows gone.
        news: Vec<bool>,
        deletes: Vec<Sent>,
    }

    struct World {
        chosen: PendingDeletions,
        set: PodSet,
        made: usize,
        there: HashSet<String>,
        /// The cache, by UID.
        shown: BTreeMap<String, KnownPod>,
    }

    impl World {
        fn of(pods: usize) -> Self {
            let mut set = PodSet::new("web", PodSetSpec::default());
            set.metadata.uid = Some("uid-set".into());
            let (there, shown) = (HashSet::new(), BTreeMap::new());
            let mut world = Self { chosen: PendingDeletions::default(), set, made: 0, there, shown };
            for number in 1..=pods {
                world.make(format!("web-pod-{number}"));
            }
            world
        }

        fn make(&mut self, name: String) {
            self.made += 1;
            let made = changed(self.made, |pod| pod.metadata.name = Some(name.clone()));
            self.there.insert(uid(made.as_ref()));
            self.shown.insert(uid(made.as_ref()), made);
        }

        fn owned(&self) -> Vec<KnownPod> {
            self.chosen.without_going(&self.set, self.shown.values().cloned().collect())
        }

        /// Visits the PodSet as the controller does. Returns how many pods it made.
        fn visit(&mut self, visit: &Visit) -> usize {
            self.set.spec.replicas = visit.replicas;
            let (there, mut news) = (self.there.clone(), visit.news.iter().cycle());
            self.shown.retain(|pod, _| there.contains(pod) || !news.next().unwrap());
            for (pod, (node, ready)) in self.shown.values_mut().zip(visit.pods.iter().cycle()) {
                let pod = std::sync::Arc::make_mut(pod);
                pod.node = node.to_string();
                pod.ready_since = ready.then_some(k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
            }
            if is_in_doubt(&self.set, &self.owned(), |pod| self.chosen.may_have_gone(&self.set, pod)) {
                self.chosen.settle(&self.set, &self.there);
            }
            let is_taken = |name: &str| self.shown.values().any(|pod| pod.name_any() == name);
            let is_chosen = |pod: &PodView| self.chosen.may_have_gone(&self.set, pod);
            let plan = plan(&self.set, &self.owned(), is_taken, is_chosen);
            self.chosen.ask(&self.set, &plan.delete, |_| true);
            for (pod, sent) in plan.delete.iter().zip(visit.deletes.iter().cycle()) {
                let was_there = self.there.contains(&uid(pod.as_ref()));
                match sent {
                    Sent::Answered | Sent::AnswerLost => self.there.remove(&uid(pod.as_ref())),
                    Sent::RequestLost | Sent::Declined => false,
                };
                match sent {
                    Sent::Answered if was_there => self.chosen.goes(&self.set, pod),
                    Sent::Declined if was_there => self.chosen.declined(&self.set, pod),
                    _ => (),
                }
            }
            let made = plan.create.len();
            for name in plan.create {
                self.make(name);
            }
            made
        }
    }

    fn visits() -> impl Strategy<Value = Visit> {
        let sent = prop_oneof![
            Just(Sent::Answered),
            Just(Sent::AnswerLost),
            Just(Sent::RequestLost),
            Just(Sent::Declined)
        ];
        let lists = (vec((0..3_u8, any::<bool>()), 1..12), vec(any::<bool>(), 1..12), vec(sent, 1..12));
        (1..=10_i32, lists).prop_map(|(replicas, (pods, news, deletes))| Visit {
            replicas,
            pods,
            news,
            deletes,
        })
    }

    #[test]
    fn no_more_than_the_surplus_goes_whatever_is_lost_and_whatever_the_cache_shows() {
        proptest!(|(pods in 0..=10_usize, visits in vec(visits(), 1..10))| {
            let mut world = World::of(pods);
            for visit in &visits {
                let (before, wanted) = (world.there.len(), usize::try_from(visit.replicas).unwrap());
                let made = world.visit(visit);
                let after = world.there.len();
                prop_assert!(after >= before.min(wanted), "{before} pods of {wanted} became {after}");
                prop_assert!(after <= before.max(wanted), "{before} pods of {wanted} became {after}");
                prop_assert!(made == 0 || after == wanted, "{made} made, {after} of {wanted}");
            }
            let last = visits.last().unwrap();
            let (replicas, pods) = (last.replicas, last.pods.clone());
            let well = Visit { replicas, pods, news: vec![true], deletes: vec![Sent::Answered] };
            for _ in 0..3 {
                world.visit(&well);
            }
            prop_assert_eq!(i32::try_from(world.there.len()), Ok(replicas));
            prop_assert!(world.chosen.of_sets.lock().is_empty());
        });
    }

    #[test]
    fn a_pod_whose_only_delete_was_declined_is_as_good_as_any_other() {
        let (world, pod) = (World::of(1), changed(1, |_| ()));
        let ask = || world.chosen.ask(&world.set, std::slice::from_ref(&pod), |_| true);
        ask();
        assert!(world.chosen.may_have_gone(&world.set, &pod));
        world.chosen.declined(&world.set, &pod);
        assert!(!world.chosen.may_have_gone(&world.set, &pod));
        ask();
        ask();
        world.chosen.declined(&world.set, &pod);
        assert!(world.chosen.may_have_gone(&world.set, &pod), "the delete before may have reached it");
    }

    #[test]
    fn a_set_that_is_gone_is_forgotten_with_its_pods() {
        let (world, pod) = (World::of(1), changed(1, |_| ()));
        let mut other = world.set.clone();
        other.metadata.uid = Some("uid-other".into());
        world.chosen.ask(&world.set, std::slice::from_ref(&pod), |_| true);
        world.chosen.ask(&other, std::slice::from_ref(&pod), |set| set == "uid-other");
        assert_eq!(world.chosen.of_sets.lock().keys().collect::<Vec<_>>(), ["uid-other"]);
        assert_eq!(world.chosen.without_going(&other, Vec::new()), []);
        assert!(world.chosen.of_sets.lock().is_empty());
    }
}
