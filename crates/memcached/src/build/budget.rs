//! The PodDisruptionBudget of a Memcached.

use k8s_openapi::{api::policy::v1::PodDisruptionBudget, apimachinery::pkg::util::intstr::IntOrString};
use operator_core::labels;

use super::{Asked, COMPONENT, identifying, selector};

/// Returns whether a Memcached needs a budget. A budget for a single Pod would block every drain of
/// its node.
pub(crate) fn is_wanted(asked: &Asked<'_>) -> bool {
    asked.size.pods > 1
}

/// Sets the desired state: an eviction disrupts one Pod at a time, and unready Pods may always be
/// evicted.
pub(crate) fn shape(asked: &Asked<'_>, budget: &mut PodDisruptionBudget) {
    labels::add(&mut budget.metadata.labels, identifying(asked.cache, COMPONENT));
    let spec = budget.spec.get_or_insert_default();
    spec.selector = Some(selector(asked.cache));
    spec.min_available = None;
    spec.max_unavailable = Some(IntOrString::Int(1));
    spec.unhealthy_pod_eviction_policy = Some("AlwaysAllow".to_owned());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::build::fixture::{asked, cache};

    #[test]
    fn needs_budget_only_for_several_pods() {
        let wanted = [0, 1, 2].map(|size| is_wanted(&asked(&cache(&json!({"size": size})))));
        assert_eq!(wanted, [false, false, true]);
    }

    #[test]
    fn budget_allows_one_disruption() {
        let mut budget = PodDisruptionBudget::default();
        shape(&asked(&cache(&json!({"size": 3}))), &mut budget);
        insta::assert_yaml_snapshot!(budget);
    }
}
