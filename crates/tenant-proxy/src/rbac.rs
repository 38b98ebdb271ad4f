//! Rights of the proxy.

use std::collections::BTreeSet;

use capsule::{
    Tenant,
    api::{
        proxy_settings::{GlobalProxySettings, ProxySetting},
        v1beta2::{CapsuleConfiguration, TenantOwner},
    },
};
use k8s_openapi::api::{
    core::v1::{ConfigMap, Namespace, PersistentVolume},
    networking::v1::IngressClass,
    node::v1::RuntimeClass,
    rbac::v1::{PolicyRule, RoleBinding},
    scheduling::v1::PriorityClass,
    storage::v1::StorageClass,
};
use operator_core::rbac::{GET, LIST, Rule, WATCH, rule};

use crate::{serving::CLIENT_CA, view::ViewKind};

/// Verbs of requests for objects.
const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
/// Verbs of requests for other paths, such as those of discovery.
const METHODS: [&str; 7] = ["get", "head", "options", "post", "put", "patch", "delete"];

/// Returns the rules of the caches, and of the enabled views. The proxy reads nothing else, and writes
/// nothing.
///
/// The kinds of GlobalProxySettings are not among them: administrators grant those that they name.
pub fn rules(views: &BTreeSet<ViewKind>) -> Vec<Rule> {
    let mut rules = vec![
        rule::<TenantOwner>(LIST | WATCH),
        rule::<CapsuleConfiguration>(LIST | WATCH),
        rule::<ProxySetting>(LIST | WATCH),
        rule::<GlobalProxySettings>(LIST | WATCH),
    ];
    if !views.contains(&ViewKind::Tenants) {
        rules.push(rule::<Tenant>(LIST | WATCH));
    }
    rules.extend(views.iter().filter_map(|view| match view {
        ViewKind::Namespaces => Some(rule::<Namespace>(LIST | WATCH)),
        ViewKind::Tenants => Some(rule::<Tenant>(GET | LIST | WATCH)),
        ViewKind::PersistentVolumes => Some(rule::<PersistentVolume>(GET | LIST | WATCH)),
        ViewKind::StorageClasses => Some(rule::<StorageClass>(GET | LIST | WATCH)),
        ViewKind::IngressClasses => Some(rule::<IngressClass>(GET | LIST | WATCH)),
        ViewKind::PriorityClasses => Some(rule::<PriorityClass>(GET | LIST | WATCH)),
        ViewKind::RuntimeClasses => Some(rule::<RuntimeClass>(GET | LIST | WATCH)),
        ViewKind::ClusterResources => None,
    }));
    rules
}

/// Returns the rules for `--namespaces-by-role-binding`.
pub fn role_binding_rules() -> Vec<Rule> {
    vec![rule::<RoleBinding>(LIST | WATCH)]
}

/// Returns the rules for `--client-certificates` in the namespace of [`CLIENT_CA`].
pub fn client_ca_rules() -> Vec<Rule> {
    vec![rule::<ConfigMap>(GET).named([CLIENT_CA.1])]
}

/// Returns the rules for `--client-certificates` in the cluster: the proxy may act as any user but those of the
/// system, which the API server itself excludes from constrained impersonation.
///
/// They have no effect before Kubernetes 1.36. The verb `impersonate`, which has no such limit, is not among
/// them.
pub fn impersonation_rules() -> Vec<PolicyRule> {
    let all = |text: &[&str]| Some(text.iter().map(|one| (*one).to_owned()).collect());
    let on = |verbs: &[&str]| verbs.iter().map(|verb| format!("impersonate-on:user-info:{verb}")).collect();
    vec![
        PolicyRule {
            api_groups: all(&["authentication.k8s.io"]),
            resources: all(&["users", "groups", "uids"]),
            verbs: vec!["impersonate:user-info".to_owned()],
            ..PolicyRule::default()
        },
        PolicyRule {
            api_groups: all(&["*"]),
            resources: all(&["*"]),
            verbs: on(&VERBS),
            ..PolicyRule::default()
        },
        PolicyRule { non_resource_urls: all(&["*"]), verbs: on(&METHODS), ..PolicyRule::default() },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impersonation_is_constrained() {
        let rules = impersonation_rules();
        let mut verbs = rules.iter().flat_map(|rule| &rule.verbs);
        assert!(
            verbs
                .all(|verb| verb.starts_with("impersonate:user-info") || verb.starts_with("impersonate-on:"))
        );
        let of_system = ["serviceaccounts", "nodes", "*"];
        let identities = rules[0].resources.as_ref().unwrap();
        assert!(identities.iter().all(|resource| !of_system.contains(&resource.as_str())));
    }

    #[test]
    fn rules_only_read_and_are_those_of_the_views() {
        let verbs = |views: &[ViewKind]| {
            let rules = rules(&views.iter().copied().collect());
            let rules = rules.into_iter().map(Rule::into_policy);
            rules.map(|rule| (rule.resources.unwrap()[0].clone(), rule.verbs.join(","))).collect::<Vec<_>>()
        };
        let caches = ["tenantowners", "capsuleconfigurations", "proxysettings", "globalproxysettings"];
        let caches = caches.map(|kind| (kind.to_owned(), "list,watch".to_owned()));
        let pair = |resource: &str, verbs: &str| (resource.to_owned(), verbs.to_owned());
        assert_eq!(verbs(&[]), [&caches[..], &[pair("tenants", "list,watch")]].concat());
        let all = verbs(&ViewKind::ALL);
        for kind in ViewKind::ALL.into_iter().filter(|kind| *kind != ViewKind::ClusterResources) {
            let expected = if kind == ViewKind::Namespaces { "list,watch" } else { "get,list,watch" };
            assert!(all.contains(&pair(kind.name(), expected)), "{}", kind.name());
        }
        assert_eq!(all.len(), caches.len() + ViewKind::ALL.len() - 1);
    }
}
