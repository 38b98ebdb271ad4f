//! Which pods to make and which to delete. Pure.

use std::{cmp::Reverse, collections::HashMap};

use k8s_openapi::jiff::Timestamp;
use operator_core::pod::Phase;

use crate::{
    api::PodSet,
    build::pod_name,
    observe::{KnownPod, counts},
};

/// What brings a PodSet to its number of pods.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Plan {
    /// Names of pods to make.
    pub(crate) create: Vec<String>,
    /// Pods to delete.
    pub(crate) delete: Vec<KnownPod>,
}

/// The plan for a PodSet that owns these pods. `is_taken` says whether any pod, whoever's, has a name.
///
/// A new pod gets the smallest number that no pod has, terminating and finished ones included. So a reconcile
/// that does not see a pod yet asks for the very name that the pod has, and is told that it exists.
pub(crate) fn plan(set: &PodSet, owned: &[KnownPod], is_taken: impl Fn(&str) -> bool) -> Plan {
    let wanted = usize::try_from(set.spec.replicas).unwrap_or_default();
    let mut present: Vec<_> = owned.iter().filter(|pod| counts(set, pod)).cloned().collect();
    if present.len() > wanted {
        let surplus = present.len() - wanted;
        let crowd = crowd(&present);
        present.sort_by_cached_key(|pod| worth(pod, &crowd));
        present.truncate(surplus);
        return Plan { create: Vec::new(), delete: present };
    }
    let free = (1..).map(|number| pod_name(set, number)).filter(|name| !is_taken(name));
    Plan { create: free.take(wanted - present.len()).collect(), delete: Vec::new() }
}

/// How many of the pods run on each node.
fn crowd(pods: &[KnownPod]) -> HashMap<String, usize> {
    let mut crowd = HashMap::new();
    for pod in pods.iter().filter(|pod| !pod.node.is_empty()) {
        *crowd.entry(pod.node.clone()).or_default() += 1;
    }
    crowd
}

/// What a pod is worth when a set shrinks; the least goes first. The order is that of Kubernetes'
/// `ActivePodsWithRanks`: unscheduled, pending, unready, cheap, crowded, ready for a short time, often
/// restarted, new.
type Worth = (
    bool,
    u8,
    bool,
    i32,
    Reverse<usize>,
    Reverse<Option<Timestamp>>,
    Reverse<i32>,
    Reverse<Option<Timestamp>>,
);

fn worth(pod: &KnownPod, crowd: &HashMap<String, usize>) -> Worth {
    let phase = match pod.phase {
        Phase::Pending => 0,
        Phase::Unknown => 1,
        Phase::Running | Phase::Succeeded | Phase::Failed => 2,
    };
    (
        !pod.node.is_empty(),
        phase,
        pod.is_ready(),
        pod.deletion_cost(),
        Reverse(crowd.get(&pod.node).copied().unwrap_or_default()),
        Reverse(pod.ready_since),
        Reverse(pod.restarts),
        Reverse(pod.metadata.creation_timestamp.as_ref().map(|time| time.0)),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kube::ResourceExt;
    use operator_core::pod::DELETION_COST;
    use proptest::prelude::*;

    use super::*;
    use crate::{api::PodSetSpec, testing::pod as changed};

    fn set(replicas: i32) -> PodSet {
        PodSet::new("web", PodSetSpec { replicas, ..PodSetSpec::default() })
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn planned(replicas: i32, pods: &[KnownPod]) -> Plan {
        let names: Vec<_> = pods.iter().map(|pod| pod.name_any()).collect();
        plan(&set(replicas), pods, |name| names.iter().any(|taken| taken == name))
    }

    fn deleted(replicas: i32, pods: &[KnownPod]) -> Vec<String> {
        planned(replicas, pods).delete.iter().map(|pod| pod.name_any()).collect()
    }

    #[test]
    fn missing_pods_get_the_smallest_free_numbers() {
        let pods = [changed(1, |_| ()), changed(3, |_| ())];
        assert_eq!(planned(4, &pods).create, ["web-pod-2", "web-pod-4"]);
    }

    #[test]
    fn terminating_and_finished_pods_keep_their_names_but_are_replaced() {
        let terminating = changed(1, |pod| pod.metadata.deletion_timestamp = Some(Time(at(1))));
        let finished = changed(2, |pod| pod.phase = Phase::Failed);
        assert_eq!(planned(1, &[terminating, finished]).create, ["web-pod-3"]);
    }

    #[test]
    fn the_pod_that_is_worth_least_goes_first() {
        let best = changed(1, |_| ());
        let cases: [(&str, KnownPod); 7] = [
            ("unscheduled", changed(2, |pod| pod.node.clear())),
            ("pending", changed(2, |pod| pod.phase = Phase::Pending)),
            ("unready", changed(2, |pod| pod.ready_since = None)),
            (
                "cheap",
                changed(2, |pod| {
                    pod.metadata.annotations = Some(BTreeMap::from([(DELETION_COST.into(), "-1".into())]));
                }),
            ),
            ("ready for a shorter time", changed(2, |pod| pod.ready_since = Some(at(9)))),
            ("restarted", changed(2, |pod| pod.restarts = 1)),
            ("newer", changed(2, |pod| pod.metadata.creation_timestamp = Some(Time(at(9))))),
        ];
        for (why, worse) in cases {
            assert_eq!(deleted(1, &[best.clone(), worse]), ["web-pod-2"], "{why}");
        }
    }

    #[test]
    fn of_pods_that_share_a_node_one_goes_first() {
        let pods = [
            changed(1, |pod| pod.node = "a".into()),
            changed(2, |pod| pod.node = "a".into()),
            changed(3, |_| ()),
        ];
        assert_ne!(deleted(2, &pods), ["web-pod-3"]);
    }

    proptest! {
        #[test]
        fn carrying_out_a_plan_leaves_nothing_to_plan(
            replicas in 1..=10_i32,
            pods in prop::collection::btree_map(1..20_usize, (0..4_u8, any::<bool>(), any::<bool>()), 0..15),
        ) {
            let mut pods: Vec<_> = pods
                .into_iter()
                .map(|(number, (phase, terminating, ready))| changed(number, |pod| {
                    pod.phase = [Phase::Pending, Phase::Running, Phase::Failed, Phase::Unknown][usize::from(phase)];
                    pod.metadata.deletion_timestamp = terminating.then(|| Time(at(1)));
                    pod.ready_since = ready.then(|| at(1));
                }))
                .collect();
            let plan = planned(replicas, &pods);
            prop_assert!(plan.create.is_empty() || plan.delete.is_empty());
            pods.retain(|pod| !plan.delete.contains(pod));
            pods.extend(plan.create.iter().map(|name| changed(1, |pod| pod.metadata.name = Some(name.clone()))));
            prop_assert_eq!(planned(replicas, &pods), Plan::default());
        }
    }
}
