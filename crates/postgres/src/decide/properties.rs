//! A model of a cluster in which anything can be interrupted, with the real decisions inside.

use std::collections::{BTreeMap, BTreeSet};

use proptest::{collection::vec, prelude::*};

use super::*;

/// What happens to the modelled cluster.
#[derive(Clone, Debug)]
enum Event {
    /// The controller reconciles, and is killed after this number of writes.
    Reconcile { writes: usize },
    /// The user changes the size.
    Resize(usize),
    /// A Pod becomes ready, or not ready.
    Ready(usize, bool),
    /// The containers of a Pod end for good.
    Finish(usize),
    /// A Pod is deleted, at once or with a grace period.
    Evict(usize, bool),
    /// Terminating objects are gone.
    Collect,
    /// Pause or resume.
    Pause(bool),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0..6usize).prop_map(|writes| Event::Reconcile { writes }),
        1 => (1..6usize).prop_map(Event::Resize),
        4 => (0..6usize, prop::bool::weighted(0.8)).prop_map(|(pod, ready)| Event::Ready(pod, ready)),
        1 => (0..6usize).prop_map(Event::Finish),
        1 => (0..6usize, any::<bool>()).prop_map(|(pod, graceful)| Event::Evict(pod, graceful)),
        2 => Just(Event::Collect),
        1 => any::<bool>().prop_map(Event::Pause),
    ]
}

struct Model {
    observed: Observed,
    created: usize,
    /// Serial numbers that had a volume.
    used: BTreeSet<Serial>,
    /// Volumes on which a Pod without a primary to copy was started.
    databases: BTreeSet<String>,
}

impl Model {
    fn new(when_scaled: RetentionPolicy) -> Self {
        let observed = Observed {
            size: 3,
            paused: false,
            when_scaled,
            membership: Membership::of(None),
            volumes: BTreeMap::new(),
            pods: BTreeMap::new(),
        };
        Self { observed, created: 0, used: BTreeSet::new(), databases: BTreeSet::new() }
    }

    fn uid(&mut self) -> String {
        self.created += 1;
        format!("u-{}", self.created)
    }

    fn pod(&mut self, index: usize) -> Option<&mut MemberPod> {
        self.observed.pods.values_mut().nth(index)
    }

    fn happen(&mut self, event: &Event) {
        match *event {
            Event::Reconcile { writes } => drop(self.reconcile(writes)),
            Event::Resize(size) => self.observed.size = size,
            Event::Ready(index, ready) => {
                if let Some(pod) = self.pod(index).filter(|pod| !pod.is_finished) {
                    pod.is_ready = ready;
                }
            }
            Event::Finish(index) => {
                if let Some(pod) = self.pod(index) {
                    (pod.is_finished, pod.is_ready) = (true, false);
                }
            }
            Event::Evict(index, true) => {
                if let Some(pod) = self.pod(index) {
                    pod.is_terminating = true;
                }
            }
            Event::Evict(index, false) => {
                let serial = self.observed.pods.keys().nth(index).copied();
                self.observed.pods.retain(|pod, _| Some(*pod) != serial);
            }
            Event::Collect => {
                self.observed.pods.retain(|_, pod| !pod.is_terminating);
                self.observed.volumes.retain(|_, volume| !volume.is_terminating);
            }
            Event::Pause(paused) => self.observed.paused = paused,
        }
    }

    /// Reconciles, and is killed after some writes. Returns whether there was anything to write.
    fn reconcile(&mut self, mut writes: usize) -> bool {
        let decision = decide(&self.observed);
        self.check(&decision);
        let changes = decision.membership != self.observed.membership;
        if changes {
            if writes == 0 {
                return true;
            }
            writes -= 1;
            self.observed.membership = decision.membership;
        }
        let acts = !decision.actions.is_empty();
        for action in decision.actions.into_iter().take(writes) {
            self.act(action);
        }
        changes || acts
    }

    fn check(&self, decision: &Decision) {
        let before = &self.observed.membership;
        let disruptive = decision.actions.iter().filter(|action| matches!(action, Action::DeletePod(..)));
        assert!(disruptive.count() <= 1, "{decision:?}");
        assert!(decision.membership.next_serial >= before.next_serial);
        if self.observed.paused {
            assert_eq!((&decision.membership, decision.actions.len()), (before, 0));
        }
        for primary in before.current.iter().chain(&before.target) {
            let member = decision.membership.members.iter().find(|member| member.serial == *primary);
            assert!(member.is_some_and(|member| !member.leaving), "the primary leaves: {decision:?}");
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::CreateVolume(serial) => {
                assert!(self.used.insert(serial), "serial {serial} was used before");
                let volume = Volume { uid: self.uid(), is_ours: true, is_terminating: false };
                self.observed.volumes.insert(serial, volume);
            }
            Action::CreatePod(serial) => {
                let volume = &self.observed.volumes[&serial];
                let member = self.observed.membership.members.iter().find(|one| one.serial == serial);
                assert_eq!(member.unwrap().volume_uid.as_ref(), Some(&volume.uid));
                if self.observed.membership.current.is_none() {
                    self.databases.insert(volume.uid.clone());
                }
                let pod = MemberPod {
                    uid: self.uid(),
                    is_ready: false,
                    is_terminating: false,
                    is_finished: false,
                    role: Some(Role::Replica),
                };
                assert_eq!(self.observed.pods.insert(serial, pod), None);
            }
            Action::DeletePod(serial, uid) => {
                let pod = self.observed.pods.get_mut(&serial).filter(|pod| pod.uid == uid).unwrap();
                pod.is_terminating = true;
            }
            Action::DeleteVolume(serial, uid) => {
                assert!(!self.observed.pods.contains_key(&serial), "a Pod uses the volume");
                let volume = self.observed.volumes.get_mut(&serial).filter(|volume| volume.uid == uid);
                volume.unwrap().is_terminating = true;
            }
            Action::SetRole(serial, uid, role) => {
                let pod = self.observed.pods.get_mut(&serial).filter(|pod| pod.uid == uid).unwrap();
                pod.role = Some(role);
                let primaries = self.observed.pods.values().filter(|pod| pod.role == Some(Role::Primary));
                assert!(primaries.count() <= 1, "two primaries");
            }
        }
    }

    /// Lets everything work until nothing is left to do.
    fn settle(&mut self) {
        self.observed.paused = false;
        for _ in 0..200 {
            self.happen(&Event::Collect);
            self.observed.pods.values_mut().for_each(|pod| pod.is_ready = !pod.is_finished);
            if !self.reconcile(usize::MAX) {
                return;
            }
        }
        panic!("the cluster does not settle: {:?}", self.observed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn interrupted_reconciles_converge_and_keep_the_guarantees(
        events in vec(event(), 0..80),
        deletes in any::<bool>(),
    ) {
        let when_scaled = if deletes { RetentionPolicy::Delete } else { RetentionPolicy::Retain };
        let mut model = Model::new(when_scaled);
        for event in &events {
            model.happen(event);
        }
        model.settle();
        let observed = &model.observed;
        prop_assert_eq!(observed.membership.members.len(), observed.size);
        let members: BTreeSet<_> = observed.membership.members.iter().map(|member| member.serial).collect();
        prop_assert_eq!(&observed.pods.keys().copied().collect::<BTreeSet<_>>(), &members);
        prop_assert_eq!(model.databases.len(), 1, "volumes with a database of their own");
        let volumes: BTreeSet<_> = observed.volumes.keys().copied().collect();
        if deletes {
            prop_assert_eq!(volumes, members);
        } else {
            prop_assert_eq!(volumes, model.used.clone());
        }
        let primaries = observed.pods.values().filter(|pod| pod.role == Some(Role::Primary)).count();
        prop_assert_eq!(primaries, 1);
    }
}
