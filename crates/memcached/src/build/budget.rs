//! The PodDisruptionBudget of a Memcached.

use k8s_openapi::{api::policy::v1::PodDisruptionBudget, apimachinery::pkg::util::intstr::IntOrString};
use operator_core::labels;

use super::{COMPONENT, DesiredCache, object_labels, selector};

/// Returns whether a Memcached needs a budget. A budget for a single Pod would block every drain of
/// its node.
pub(crate) fn is_needed(desired: &DesiredCache<'_>) -> bool {
    desired.size.pods > 1
}

/// Sets the desired state: an eviction disrupts one Pod at a time, and unready Pods may always be
/// evicted.
pub(crate) fn mutate(desired: &DesiredCache<'_>, budget: &mut PodDisruptionBudget) {
    labels::add(&mut budget.metadata.labels, object_labels(desired.cache, COMPONENT));
    let spec = budget.spec.get_or_insert_default();
    spec.selector = Some(selector(desired.cache));
    spec.min_available = None;
    spec.max_unavailable = Some(IntOrString::Int(1));
    spec.unhealthy_pod_eviction_policy = Some("AlwaysAllow".to_owned());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::build::fixture::{cache, desired};

    #[test]
    fn needs_budget_only_for_several_pods() {
        let wanted = [0, 1, 2].map(|size| is_needed(&desired(&cache(&json!({"size": size})))));
        assert_eq!(wanted, [false, false, true]);
    }

    #[test]
    fn budget_allows_one_disruption() {
        let mut budget = PodDisruptionBudget::default();
        mutate(&desired(&cache(&json!({"size": 3}))), &mut budget);
        insta::assert_yaml_snapshot!(budget);
    }
}
