//! Where the Pods of the members run.

use k8s_openapi::api::core::v1::{
    Affinity, PodAffinityTerm, PodAntiAffinity, PodSpec, TopologySpreadConstraint, WeightedPodAffinityTerm,
};

use super::selector;
use crate::api::PostgresCluster;

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Sets the fields of a Pod that decide where it runs.
pub(super) fn set(cluster: &PostgresCluster, pod: &mut PodSpec) {
    let spec = &cluster.spec;
    pod.node_selector = Some(spec.node_selector.clone()).filter(|labels| !labels.is_empty());
    pod.tolerations = Some(spec.tolerations.clone()).filter(|list| !list.is_empty());
    pod.priority_class_name.clone_from(&spec.priority_class_name);
    pod.affinity = Some(anti_affinity(cluster));
    pod.topology_spread_constraints = Some(match spec.topology_spread_constraints.as_slice() {
        [] => [ZONE, HOSTNAME].map(|key| spread(cluster, key)).to_vec(),
        constraints => constraints.to_vec(),
    });
}

/// Keeps the members on different nodes: always with `spec.antiAffinity`, otherwise if possible.
fn anti_affinity(cluster: &PostgresCluster) -> Affinity {
    let term = PodAffinityTerm {
        label_selector: Some(selector(cluster)),
        topology_key: HOSTNAME.to_owned(),
        ..PodAffinityTerm::default()
    };
    let pods = if cluster.spec.anti_affinity {
        PodAntiAffinity {
            required_during_scheduling_ignored_during_execution: Some(vec![term]),
            ..PodAntiAffinity::default()
        }
    } else {
        let preferred = WeightedPodAffinityTerm { weight: 100, pod_affinity_term: term };
        PodAntiAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(vec![preferred]),
            ..PodAntiAffinity::default()
        }
    };
    Affinity { pod_anti_affinity: Some(pods), ..Affinity::default() }
}

fn spread(cluster: &PostgresCluster, key: &str) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew: 1,
        topology_key: key.to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        label_selector: Some(selector(cluster)),
        ..TopologySpreadConstraint::default()
    }
}
