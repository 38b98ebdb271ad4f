//! The PodDisruptionBudget of a cluster.
//!
//! One budget selects all members. Kubernetes compares the ready Pods of a budget with `spec.size`,
//! because the members have one owner, so a budget for a part of them would allow no disruption.

use k8s_openapi::{api::policy::v1::PodDisruptionBudget, apimachinery::pkg::util::intstr::IntOrString};
use operator_core::labels;

use super::{object_labels, selector};
use crate::api::PostgresCluster;

/// Returns whether a cluster needs a budget. A budget for a single member would block every drain of
/// its node.
pub(crate) fn is_needed(cluster: &PostgresCluster) -> bool {
    cluster.spec.size > 1
}

/// Sets the desired state: one member is evicted at a time. If it is the primary, a standby takes over.
pub(crate) fn mutate(cluster: &PostgresCluster, budget: &mut PodDisruptionBudget) {
    labels::add(&mut budget.metadata.labels, object_labels(cluster));
    let spec = budget.spec.get_or_insert_default();
    spec.selector = Some(selector(cluster));
    spec.min_available = None;
    spec.max_unavailable = Some(IntOrString::Int(1));
    spec.unhealthy_pod_eviction_policy = Some("AlwaysAllow".to_owned());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::fixture::cluster;

    #[test]
    fn one_member_is_evicted_at_a_time() {
        let mut budget = PodDisruptionBudget::default();
        mutate(&cluster(&json!({"size": 3})), &mut budget);
        insta::assert_yaml_snapshot!(budget.spec);
    }

    #[test]
    fn single_member_has_no_budget() {
        assert!(!is_needed(&cluster(&json!({"size": 1}))));
        assert!(is_needed(&cluster(&json!({"size": 2}))));
    }
}
