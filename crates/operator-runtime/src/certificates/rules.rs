//! The rights that the keeping of certificates needs.

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

use super::{CaBundleHolder, config::SECRET};

/// The rights in the manager's own namespace. A create cannot be narrowed to a name.
pub fn rules() -> Vec<Rule> {
    vec![rule::<Secret>(CREATE), rule::<Secret>(GET | LIST | WATCH | UPDATE).named([SECRET])]
}

/// The rights on cluster-scoped objects: to follow and patch these, and no others.
pub fn cluster_rules(holders: &[CaBundleHolder]) -> Vec<Rule> {
    let name = |pick: fn(&CaBundleHolder) -> Option<&String>| holders.iter().filter_map(pick);
    [
        follow_and_patch::<ValidatingWebhookConfiguration>(name(|holder| match holder {
            CaBundleHolder::Validating(name) => Some(name),
            _ => None,
        })),
        follow_and_patch::<MutatingWebhookConfiguration>(name(|holder| match holder {
            CaBundleHolder::Mutating(name) => Some(name),
            _ => None,
        })),
        follow_and_patch::<CustomResourceDefinition>(name(|holder| match holder {
            CaBundleHolder::Conversion(name) => Some(name),
            _ => None,
        })),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// No rule without names: it would allow all.
fn follow_and_patch<'a, K: Kind>(names: impl Iterator<Item = &'a String>) -> Option<Rule> {
    let names: Vec<_> = names.map(String::as_str).collect();
    (!names.is_empty()).then(|| rule::<K>(LIST | WATCH | PATCH).named(names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_narrowed_to_names_or_not_given() {
        assert!(cluster_rules(&[]).is_empty());
        let rules = cluster_rules(&[CaBundleHolder::Conversion("things.example.com".to_owned())]);
        assert_eq!(rules.len(), 1);
        let policy = rules[0].clone().into_policy();
        assert_eq!(policy.resource_names, Some(vec!["things.example.com".to_owned()]));
        assert_eq!(policy.verbs, ["list", "watch", "patch"]);
    }
}
