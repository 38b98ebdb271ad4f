//! Which Pods to create and which to delete. Pure.

use std::{cmp::Reverse, collections::HashMap};

use k8s_openapi::jiff::Timestamp;
use operator_core::pod::{Phase, PodView};

use crate::{
    api::PodSet,
    pod_cache::{CachedPod, is_replica},
    pod_template::pod_name,
};

/// Pods to create or delete, so that the PodSet has the desired number.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Plan {
    /// Names of the Pods to create.
    pub(crate) create: Vec<String>,
    /// Pods to delete.
    pub(crate) delete: Vec<CachedPod>,
}

/// Returns the plan for a PodSet that owns these Pods.
///
/// `name_exists` returns whether any Pod has a name. `is_pending` returns whether a Pod was selected
/// for deletion before, with an unknown result.
///
/// Pods with a pending deletion are deleted first, whatever their rank is now. Some of them may be
/// gone although the cache still shows them, so selecting others would delete too many.
///
/// A new Pod gets the smallest number that no Pod has, including terminating and finished ones. A
/// reconcile with a stale cache therefore chooses the name of the existing Pod, and the create
/// fails with AlreadyExists.
pub(crate) fn plan(
    set: &PodSet,
    owned: &[CachedPod],
    name_exists: impl Fn(&str) -> bool,
    is_pending: impl Fn(&PodView) -> bool,
) -> Plan {
    let desired = desired_replicas(set);
    let mut replicas: Vec<_> = owned.iter().filter(|pod| is_replica(set, pod)).cloned().collect();
    if replicas.len() > desired {
        let surplus = replicas.len() - desired;
        let pods_per_node = pods_per_node(&replicas);
        replicas.sort_by_cached_key(|pod| (!is_pending(pod), deletion_rank(pod, &pods_per_node)));
        replicas.truncate(surplus);
        return Plan { create: Vec::new(), delete: replicas };
    }
    let free = (1..).map(|number| pod_name(set, number)).filter(|name| !name_exists(name));
    Plan { create: free.take(desired - replicas.len()).collect(), delete: Vec::new() }
}

/// Returns whether the Pods must be listed live before planning.
///
/// That is the case if more deletions are pending than Pods are surplus, because `spec.replicas` was
/// raised or other Pods are gone.
pub(crate) fn needs_live_list(
    set: &PodSet,
    owned: &[CachedPod],
    is_pending: impl Fn(&PodView) -> bool,
) -> bool {
    let (pending, others): (Vec<_>, Vec<_>) =
        owned.iter().filter(|pod| is_replica(set, pod)).partition(|pod| is_pending(pod));
    !pending.is_empty() && others.len() < desired_replicas(set)
}

fn desired_replicas(set: &PodSet) -> usize {
    usize::try_from(set.spec.replicas).unwrap_or_default()
}

/// Counts the Pods on each node.
fn pods_per_node(pods: &[CachedPod]) -> HashMap<String, usize> {
    let mut pods_per_node = HashMap::new();
    for pod in pods.iter().filter(|pod| !pod.node.is_empty()) {
        *pods_per_node.entry(pod.node.clone()).or_default() += 1;
    }
    pods_per_node
}

/// Sort key of Pods for scaling down. The lowest is deleted first.
///
/// The order is that of Kubernetes' `ActivePodsWithRanks`: unscheduled, pending, not ready, lower
/// deletion cost, more Pods on the same node, ready for a shorter time, more restarts, newer.
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

fn deletion_rank(pod: &CachedPod, pods_per_node: &HashMap<String, usize>) -> DeletionRank {
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
    use crate::{api::PodSetSpec, testing::pod};

    fn set(replicas: i32) -> PodSet {
        PodSet::new("web", PodSetSpec { replicas, ..PodSetSpec::default() })
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn plan_for(replicas: i32, pods: &[CachedPod]) -> Plan {
        let names: Vec<_> = pods.iter().map(|pod| pod.name_any()).collect();
        plan(&set(replicas), pods, |name| names.iter().any(|existing| existing == name), |_| false)
    }

    fn deleted(replicas: i32, pods: &[CachedPod]) -> Vec<String> {
        plan_for(replicas, pods).delete.iter().map(|pod| pod.name_any()).collect()
    }

    #[test]
    fn missing_pods_get_the_smallest_free_numbers() {
        let pods = [pod(1, |_| ()), pod(3, |_| ())];
        assert_eq!(plan_for(4, &pods).create, ["web-pod-2", "web-pod-4"]);
    }

    #[test]
    fn terminating_and_finished_pods_are_replaced_under_new_names() {
        let terminating = pod(1, |pod| pod.metadata.deletion_timestamp = Some(Time(at(1))));
        let finished = pod(2, |pod| pod.phase = Phase::Failed);
        assert_eq!(plan_for(1, &[terminating, finished]).create, ["web-pod-3"]);
    }

    #[test]
    fn lowest_ranked_pod_is_deleted_first() {
        let best = pod(1, |_| ());
        let cases: [(&str, CachedPod); 7] = [
            ("unscheduled", pod(2, |pod| pod.node.clear())),
            ("pending", pod(2, |pod| pod.phase = Phase::Pending)),
            ("not ready", pod(2, |pod| pod.ready_since = None)),
            (
                "lower deletion cost",
                pod(2, |pod| {
                    pod.metadata.annotations = Some(BTreeMap::from([(DELETION_COST.into(), "-1".into())]));
                }),
            ),
            ("ready for a shorter time", pod(2, |pod| pod.ready_since = Some(at(9)))),
            ("restarted", pod(2, |pod| pod.restarts = 1)),
            ("newer", pod(2, |pod| pod.metadata.creation_timestamp = Some(Time(at(9))))),
        ];
        for (difference, lower) in cases {
            assert_eq!(deleted(1, &[best.clone(), lower]), ["web-pod-2"], "{difference}");
        }
    }

    #[test]
    fn pod_on_the_fuller_node_is_deleted_first() {
        let pods = [pod(1, |pod| pod.node = "a".into()), pod(2, |pod| pod.node = "a".into()), pod(3, |_| ())];
        assert_ne!(deleted(2, &pods), ["web-pod-3"]);
    }

    #[test]
    fn pending_deletions_are_planned_again_with_a_stale_cache() {
        let on = |number, node: &str| pod(number, |pod| pod.node = node.into());
        let pods = [on(1, "a"), on(2, "a"), on(3, "b"), on(4, "b"), on(5, "c")];
        let selected = deleted(2, &pods);
        assert_eq!(selected, ["web-pod-1", "web-pod-2", "web-pod-3"]);
        // All three are deleted, and the cache shows only the second as gone. The first now ranks
        // higher, because no other Pod is on its node.
        let left = [on(1, "a"), on(3, "b"), on(4, "b"), on(5, "c")];
        assert_eq!(
            deleted(2, &left),
            ["web-pod-3", "web-pod-4"],
            "without the record, a fourth Pod would be deleted"
        );
        let is_pending = |pod: &PodView| selected.contains(&pod.name_any());
        let plan = plan(&set(2), &left, |_| true, is_pending);
        let again: Vec<_> = plan.delete.iter().map(|pod| pod.name_any()).collect();
        assert_eq!(again, ["web-pod-3", "web-pod-1"]);
        assert!(plan.create.is_empty());
    }

    #[test]
    fn live_list_is_needed_if_more_deletions_are_pending_than_pods_are_surplus() {
        let pods: Vec<_> = (1..=4).map(|number| pod(number, |_| ())).collect();
        let needed = |replicas, pending: &[&str]| {
            needs_live_list(&set(replicas), &pods, |pod| pending.contains(&pod.name_any().as_str()))
        };
        assert!(!needed(2, &["web-pod-1", "web-pod-2"]));
        assert!(!needed(1, &["web-pod-1", "web-pod-2"]), "both are still surplus");
        assert!(needed(3, &["web-pod-1", "web-pod-2"]), "one of them is still needed, if it exists");
        assert!(needed(9, &["web-pod-1"]));
        assert!(!needed(9, &[]));
    }

    proptest! {
        #[test]
        fn plan_is_empty_after_a_plan_is_executed(
            replicas in 1..=10_i32,
            pods in prop::collection::btree_map(1..20_usize, (0..4_u8, any::<bool>(), any::<bool>()), 0..15),
        ) {
            let mut pods: Vec<_> = pods
                .into_iter()
                .map(|(number, (phase, terminating, ready))| pod(number, |pod| {
                    pod.phase = [Phase::Pending, Phase::Running, Phase::Failed, Phase::Unknown][usize::from(phase)];
                    pod.metadata.deletion_timestamp = terminating.then(|| Time(at(1)));
                    pod.ready_since = ready.then(|| at(1));
                }))
                .collect();
            let plan = plan_for(replicas, &pods);
            prop_assert!(plan.create.is_empty() || plan.delete.is_empty());
            pods.retain(|pod| !plan.delete.contains(pod));
            pods.extend(plan.create.iter().map(|name| pod(1, |pod| pod.metadata.name = Some(name.clone()))));
            prop_assert_eq!(plan_for(replicas, &pods), Plan::default());
        }
    }
}
