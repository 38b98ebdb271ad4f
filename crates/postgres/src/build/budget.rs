//! The PodDisruptionBudgets of a cluster: one for the primary, one for the replicas.

use k8s_openapi::{api::policy::v1::PodDisruptionBudget, apimachinery::pkg::util::intstr::IntOrString};
use kube::ResourceExt;
use operator_core::labels;

use super::{object_labels, selector};
use crate::api::{PostgresCluster, Role};

/// Returns the name of the budget for a role.
pub(crate) fn name(cluster: &PostgresCluster, role: Role) -> String {
    format!("{}-{}", cluster.name_any(), role.as_str())
}

/// Returns whether a cluster needs budgets. A budget for a single member would block every drain of
/// its node.
pub(crate) fn is_needed(cluster: &PostgresCluster) -> bool {
    cluster.spec.size > 1
}

/// Sets the desired state: the primary is not evicted, and one replica at a time.
pub(crate) fn mutate(cluster: &PostgresCluster, role: Role, budget: &mut PodDisruptionBudget) {
    labels::add(&mut budget.metadata.labels, object_labels(cluster));
    let spec = budget.spec.get_or_insert_default();
    spec.selector = Some(selector(cluster, Some(role)));
    (spec.min_available, spec.max_unavailable) = match role {
        Role::Primary => (Some(IntOrString::Int(1)), None),
        Role::Replica => (None, Some(IntOrString::Int(1))),
    };
    spec.unhealthy_pod_eviction_policy = Some("AlwaysAllow".to_owned());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::fixture::cluster;

    #[test]
    fn budgets_keep_the_primary_and_all_replicas_but_one() {
        let cluster = cluster(&json!({"size": 3}));
        let budgets = [Role::Primary, Role::Replica].map(|role| {
            let mut budget = PodDisruptionBudget::default();
            mutate(&cluster, role, &mut budget);
            (name(&cluster, role), budget.spec)
        });
        insta::assert_yaml_snapshot!(budgets);
    }

    #[test]
    fn single_member_has_no_budget() {
        assert!(!is_needed(&cluster(&json!({"size": 1}))));
        assert!(is_needed(&cluster(&json!({"size": 2}))));
    }
}
