//! The rights that letting go of a cluster needs.

use k8s_openapi::api::{
    admissionregistration::v1::{
        MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
        ValidatingWebhookConfiguration,
    },
    core::v1::{Namespace, Pod},
};
use operator_core::{
    Registration,
    kind::Kind,
    rbac::{DELETE, GET, LIST, PATCH, Rule, rule, rule_on},
};

use super::named::names;

/// To see whether the manager's own namespace is being deleted. A Role in that namespace is enough.
pub fn rules(namespace: &str) -> Vec<Rule> {
    vec![rule::<Namespace>(GET).named([namespace])]
}

/// What the controllers have no rights for by themselves: to delete what the API server was told, by its names.
pub fn cluster_rules(controllers: &[Registration]) -> Vec<Rule> {
    let names: Vec<_> = controllers.iter().map(names).collect();
    let validating: Vec<_> = names.iter().filter_map(|names| names.validating.as_deref()).collect();
    let mutating: Vec<_> = names.iter().filter_map(|names| names.mutating.as_deref()).collect();
    let policies: Vec<_> = names.iter().flat_map(|names| names.policies.iter().map(String::as_str)).collect();
    [
        look_and_delete::<ValidatingWebhookConfiguration>(&validating),
        look_and_delete::<MutatingWebhookConfiguration>(&mutating),
        look_and_delete::<ValidatingAdmissionPolicy>(&policies),
        look_and_delete::<ValidatingAdmissionPolicyBinding>(&policies),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// No rule without names: it would allow all.
fn look_and_delete<K: Kind>(names: &[&str]) -> Option<Rule> {
    (!names.is_empty()).then(|| rule::<K>(GET | DELETE).named(names.iter().copied()))
}

/// To see which managers have not ended. A Role in their namespace is enough.
pub fn pod_rules() -> Vec<Rule> {
    vec![rule::<Pod>(LIST)]
}

/// All that is needed in the cluster by whoever has no other rights.
pub fn release_rules(controllers: &[Registration]) -> Vec<Rule> {
    let held = controllers.iter().filter_map(|controller| (controller.owned_finalizer)());
    let held = held.map(|held| rule_on(&held.resource, held.namespaced, GET | LIST | PATCH));
    let leftovers = controllers.iter().flat_map(|controller| (controller.leftovers)());
    let leftovers = leftovers.flat_map(|leftovers| {
        let delete = rule_on(&leftovers.resource, false, DELETE).named(leftovers.names.iter().copied());
        [rule_on(&leftovers.resource, false, LIST), delete]
    });
    cluster_rules(controllers).into_iter().chain(held).chain(leftovers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_narrowed_to_names_or_not_given() {
        assert!(cluster_rules(&[]).is_empty() && release_rules(&[]).is_empty());
        let policy = rules("here").remove(0).into_policy();
        assert_eq!(policy.resource_names, Some(vec!["here".to_owned()]));
        assert_eq!(policy.verbs, ["get"]);
    }
}
