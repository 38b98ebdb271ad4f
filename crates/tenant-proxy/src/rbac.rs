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
    core::v1::{Namespace, PersistentVolume},
    networking::v1::IngressClass,
    node::v1::RuntimeClass,
    scheduling::v1::PriorityClass,
    storage::v1::StorageClass,
};
use operator_core::rbac::{GET, LIST, Rule, WATCH, rule};

use crate::view::ViewKind;

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

#[cfg(test)]
mod tests {
    use super::*;

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
