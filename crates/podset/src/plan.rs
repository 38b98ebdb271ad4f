//! Which pods to make and which to delete. Pure.

use std::{cmp::Reverse, collections::HashMap};

use k8s_openapi::jiff::Timestamp;
use operator_core::pod::{Phase, PodView};

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

/// The plan for a PodSet that owns these pods. `is_taken` says whether any pod, whoever's, has a name; `is_chosen`
/// whether a pod was chosen before and may have gone since.
///
/// Pods that were chosen before go first, whatever they are worth now: some of the surplus may have gone without the
/// cache knowing, and whoever chose others instead would take them besides.
///
/// A new pod gets the smallest number that no pod has, terminating and finished ones included. So a reconcile
/// that does not see a pod yet asks for the very name that the pod has, and is told that it exists.
pub(crate) fn plan(
    set: &PodSet,
    owned: &[KnownPod],
    is_taken: impl Fn(&str) -> bool,
    is_chosen: impl Fn(&PodView) -> bool,
) -> Plan {
    let wanted = wanted(set);
    let mut present: Vec<_> = owned.iter().filter(|pod| counts(set, pod)).cloned().collect();
    if present.len() > wanted {
        let surplus = present.len() - wanted;
        let pods_per_node = pods_per_node(&present);
        present.sort_by_cached_key(|pod| (!is_chosen(pod), worth(pod, &pods_per_node)));
        present.truncate(surplus);
        return Plan { create: Vec::new(), delete: present };
    }
    let free = (1..).map(|number| pod_name(set, number)).filter(|name| !is_taken(name));
    Plan { create: free.take(wanted - present.len()).collect(), delete: Vec::new() }
}

/// Whether a plan has to wait until it is known which of the chosen pods are still there: more were chosen than are
/// surplus now, because the spec was raised or other pods went.
pub(crate) fn is_in_doubt(set: &PodSet, owned: &[KnownPod], is_chosen: impl Fn(&PodView) -> bool) -> bool {
    let (chosen, others): (Vec<_>, Vec<_>) =
        owned.iter().filter(|pod| counts(set, pod)).partition(|pod| is_chosen(pod));
    !chosen.is_empty() && others.len() < wanted(set)
}

fn wanted(set: &PodSet) -> usize {
    usize::try_from(set.spec.replicas).unwrap_or_default()
}

/// How many of the pods run on each node.
fn pods_per_node(pods: &[KnownPod]) -> HashMap<String, usize> {
    let mut pods_per_node = HashMap::new();
    for pod in pods.iter().filter(|pod| !pod.node.is_empty()) {
        *pods_per_node.entry(pod.node.clone()).or_default() += 1;
    }
    pods_per_node
}

/// What a pod is worth when a set shrinks; the least goes first. The order is that of Kubernetes'
/// `ActivePodsWithRanks`: unscheduled, pending, unready, cheap, crowded, ready for a short time, often
/// restarted, new.
type DeletionRank = (
    bool,
    u8,
    bool,
    i32,
    Reverse<usize>,
    Reverse<Option<Timestamp>>,
    Reverse<i32>,
    Reverse<Option<Timestamp>>,
);

fn worth(pod: &KnownPod, pods_per_node: &HashMap<String, usize>) -> DeletionRank {
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
        Reverse(pods_per_node.get(&pod.node).copied().unwrap_or_default()),
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
        plan(&set(replicas), pods, |name| names.iter().any(|taken| taken == name), |_| false)
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

    #[test]
    fn what_was_chosen_goes_though_the_cache_shows_only_some_of_it_gone() {
        let on = |number, node: &str| changed(number, |pod| pod.node = node.into());
        let pods = [on(1, "a"), on(2, "a"), on(3, "b"), on(4, "b"), on(5, "c")];
        let chosen = deleted(2, &pods);
        assert_eq!(chosen, ["web-pod-1", "web-pod-2", "web-pod-3"]);
        // All three have gone, and the cache shows that of the second. The first is not doubled up any more.
        let left = [on(1, "a"), on(3, "b"), on(4, "b"), on(5, "c")];
        assert_eq!(deleted(2, &left), ["web-pod-3", "web-pod-4"], "a fourth pod would go");
        let is_chosen = |pod: &PodView| chosen.contains(&pod.name_any());
        let plan = plan(&set(2), &left, |_| true, is_chosen);
        let again: Vec<_> = plan.delete.iter().map(|pod| pod.name_any()).collect();
        assert_eq!(again, ["web-pod-3", "web-pod-1"]);
        assert!(plan.create.is_empty());
    }

    #[test]
    fn a_plan_is_in_doubt_where_more_pods_were_chosen_than_are_surplus() {
        let pods: Vec<_> = (1..=4).map(|number| changed(number, |_| ())).collect();
        let doubted = |replicas, chosen: &[&str]| {
            is_in_doubt(&set(replicas), &pods, |pod| chosen.contains(&pod.name_any().as_str()))
        };
        assert!(!doubted(2, &["web-pod-1", "web-pod-2"]));
        assert!(!doubted(1, &["web-pod-1", "web-pod-2"]), "another one goes besides");
        assert!(doubted(3, &["web-pod-1", "web-pod-2"]), "one of them may stay, if it is there");
        assert!(doubted(9, &["web-pod-1"]));
        assert!(!doubted(9, &[]));
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
