//! Permissions that the cleanup needs.

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

use super::admission::admission_names;

/// Returns the rules to get the manager's own namespace. A Role in that namespace is enough.
pub fn namespace_rules(namespace: &str) -> Vec<Rule> {
    vec![rule::<Namespace>(GET).named([namespace])]
}

/// Returns the rules to delete the webhook configurations and admission policies by name. The
/// controllers do not have these permissions themselves.
pub fn admission_rules(controllers: &[Registration]) -> Vec<Rule> {
    let names: Vec<_> = controllers.iter().map(admission_names).collect();
    let validating: Vec<_> = names.iter().filter_map(|names| names.validating.as_deref()).collect();
    let mutating: Vec<_> = names.iter().filter_map(|names| names.mutating.as_deref()).collect();
    let policies: Vec<_> = names.iter().flat_map(|names| names.policies.iter().map(String::as_str)).collect();
    [
        get_and_delete::<ValidatingWebhookConfiguration>(&validating),
        get_and_delete::<MutatingWebhookConfiguration>(&mutating),
        get_and_delete::<ValidatingAdmissionPolicy>(&policies),
        get_and_delete::<ValidatingAdmissionPolicyBinding>(&policies),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns `None` without names, because a rule without names allows all objects.
fn get_and_delete<K: Kind>(names: &[&str]) -> Option<Rule> {
    (!names.is_empty()).then(|| rule::<K>(GET | DELETE).named(names.iter().copied()))
}

/// Returns the rules to list the Pods of managers. A Role in their namespace is enough.
pub fn pod_rules() -> Vec<Rule> {
    vec![rule::<Pod>(LIST)]
}

/// Returns all rules that the cleanup needs cluster-wide if the account has no other permissions.
pub fn cleanup_rules(controllers: &[Registration]) -> Vec<Rule> {
    let finalizers = controllers.iter().filter_map(|controller| (controller.owned_finalizer)());
    let finalizers = finalizers.map(|owned| rule_on(&owned.resource, owned.namespaced, GET | LIST | PATCH));
    let leftovers = controllers.iter().flat_map(|controller| (controller.leftovers)());
    let leftovers = leftovers.flat_map(|leftovers| {
        let delete = rule_on(&leftovers.resource, false, DELETE).named(leftovers.names.iter().copied());
        [rule_on(&leftovers.resource, false, LIST), delete]
    });
    admission_rules(controllers).into_iter().chain(finalizers).chain(leftovers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_limited_to_names() {
        assert!(admission_rules(&[]).is_empty() && cleanup_rules(&[]).is_empty());
        let policy = namespace_rules("here").remove(0).into_policy();
        assert_eq!(policy.resource_names, Some(vec!["here".to_owned()]));
        assert_eq!(policy.verbs, ["get"]);
    }
}
