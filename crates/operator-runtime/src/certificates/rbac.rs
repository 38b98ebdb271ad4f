//! RBAC rules for certificates.

use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        core::v1::Secret,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use operator_core::{
    kind::Kind,
    rbac::{CREATE, GET, LIST, PATCH, Rule, UPDATE, WATCH, rule},
};

use super::{CaBundleTarget, config::SECRET};

/// Returns the rules in the manager's namespace. RBAC cannot restrict `create` to a name.
pub fn rules() -> Vec<Rule> {
    vec![rule::<Secret>(CREATE), rule::<Secret>(GET | LIST | WATCH | UPDATE).named([SECRET])]
}

/// Returns the rules on cluster-scoped objects, each restricted to the names of `targets`.
pub fn cluster_rules(targets: &[CaBundleTarget]) -> Vec<Rule> {
    let name = |pick: fn(&CaBundleTarget) -> Option<&String>| targets.iter().filter_map(pick);
    [
        watch_and_patch::<ValidatingWebhookConfiguration>(name(|target| match target {
            CaBundleTarget::Validating(name) => Some(name),
            _ => None,
        })),
        watch_and_patch::<MutatingWebhookConfiguration>(name(|target| match target {
            CaBundleTarget::Mutating(name) => Some(name),
            _ => None,
        })),
        watch_and_patch::<CustomResourceDefinition>(name(|target| match target {
            CaBundleTarget::Conversion(name) => Some(name),
            _ => None,
        })),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns no rule for an empty list of names, because such a rule allows every name.
fn watch_and_patch<'a, K: Kind>(names: impl Iterator<Item = &'a String>) -> Option<Rule> {
    let names: Vec<_> = names.map(String::as_str).collect();
    (!names.is_empty()).then(|| rule::<K>(LIST | WATCH | PATCH).named(names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_restricted_to_names() {
        assert!(cluster_rules(&[]).is_empty());
        let rules = cluster_rules(&[CaBundleTarget::Conversion("things.example.com".to_owned())]);
        assert_eq!(rules.len(), 1);
        let policy = rules[0].clone().into_policy();
        assert_eq!(policy.resource_names, Some(vec!["things.example.com".to_owned()]));
        assert_eq!(policy.verbs, ["list", "watch", "patch"]);
    }
}
