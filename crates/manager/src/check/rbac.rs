//! Permissions that the check needs.

use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration, coordination::v1::Lease, core::v1::Pod,
};
use operator_core::{
    Registration,
    rbac::{CREATE, GET, LIST, PATCH, Rule, rule, rule_on},
};
use operator_runtime::election::lease_name;

use super::webhooks::{Call, OBJECT, calls};

/// Returns the rules that the check needs in the namespace of the managers.
pub fn namespace_rules(controllers: &[Registration]) -> Vec<Rule> {
    let leases: Vec<_> = controllers.iter().map(|controller| lease_name(controller.name)).collect();
    vec![rule::<Pod>(LIST), rule::<Lease>(GET).named(leases.iter().map(String::as_str))]
}

/// Returns the cluster-wide rules to call the webhooks of a controller. They allow one object of
/// each kind, by name, which the check creates only in dry runs.
pub fn webhook_rules(controller: &Registration) -> Vec<Rule> {
    let rules = |call: Call| {
        [
            rule::<ValidatingWebhookConfiguration>(GET).named([&*call.configuration]),
            rule_on(&call.resource, false, CREATE | PATCH).named([OBJECT]),
        ]
    };
    calls(controller).into_iter().flat_map(rules).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CONTROLLERS;

    #[test]
    fn rules_are_limited_to_names() {
        let webhooks = CONTROLLERS.iter().flat_map(webhook_rules);
        let policies: Vec<_> = webhooks.chain(namespace_rules(CONTROLLERS)).map(Rule::into_policy).collect();
        let unnamed = policies.iter().filter(|policy| policy.resource_names.is_none());
        assert_eq!(unnamed.map(|policy| policy.verbs.join(",")).collect::<Vec<_>>(), ["list"]);
        let tenants = policies.iter().find(|policy| policy.resources == Some(vec!["tenants".to_owned()]));
        assert_eq!(tenants.unwrap().resource_names, Some(vec!["ensemble-check".to_owned()]));
    }
}
