//! What a user sees of a kind.

use std::collections::{BTreeMap, BTreeSet};

use capsule::{
    api::{names::TENANT_LABEL, v1beta2::DefaultAllowedList},
    class_filter::ClassFilter,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};

use crate::{selector::Requirement, view::ViewKind};

/// Label of a namespace with its own name, which the API server sets.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// Most names in a selector: 128 KiB of a request.
const MAX_NAMES: usize = 2_000;

/// What a user sees of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scope {
    /// Names of Tenants: the Tenants themselves, or those whose objects the user sees.
    pub tenants: BTreeSet<String>,
    /// Names of namespaces that are in none of these Tenants.
    pub namespaces: BTreeSet<String>,
    /// Lists of classes of the Tenants.
    pub classes: Vec<DefaultAllowedList>,
    /// Selectors of rules of GlobalProxySettings.
    pub selectors: Vec<LabelSelector>,
}

impl Scope {
    /// Returns what the labels of the objects must meet, or `None` if the API server cannot select them: by
    /// their names, or in several ways.
    ///
    /// The webhooks of Tenants guard the label of namespaces, so a namespace of another Tenant cannot have
    /// it.
    pub fn requirements(&self, kind: ViewKind) -> Option<Vec<Requirement>> {
        let nothing = || Requirement::impossible(TENANT_LABEL).to_vec();
        let is_in = |key: &str, values: &BTreeSet<String>| {
            let one = Requirement::is_in(key, values.iter().cloned());
            Some(one.map_or_else(nothing, |one| vec![one]))
        };
        let (tenants, names) = (&self.tenants, &self.namespaces);
        match (tenants.len(), names.len(), self.classes.as_slice(), self.selectors.as_slice()) {
            (1.., 0, [], []) if kind != ViewKind::Tenants => is_in(TENANT_LABEL, tenants),
            (0, 1..=MAX_NAMES, [], []) => is_in(NAME_LABEL, names),
            (0, 0, [], [selector]) => Some(Requirement::of(selector).unwrap_or_else(nothing)),
            (0, 0, [], []) => Some(nothing()),
            _ => None,
        }
    }

    /// Returns the filter by which the proxy chooses the objects.
    pub fn filter(&self, kind: ViewKind) -> ObjectFilter {
        let is_tenants = kind == ViewKind::Tenants;
        // Like a selector that is invalid, one that is empty selects nothing.
        let selectors = self.selectors.iter().filter(|selector| **selector != LabelSelector::default());
        ObjectFilter {
            names: if is_tenants { self.tenants.clone() } else { self.namespaces.clone() },
            tenants: if is_tenants { BTreeSet::new() } else { self.tenants.clone() },
            classes: self.classes.iter().map(ClassFilter::new).collect(),
            selectors: selectors.filter_map(|one| Selector::try_from(one.clone()).ok()).collect(),
        }
    }
}

/// Chooses objects by their names and labels.
#[derive(Debug)]
pub struct ObjectFilter {
    names: BTreeSet<String>,
    /// Values of the label of Tenants.
    tenants: BTreeSet<String>,
    classes: Vec<ClassFilter>,
    selectors: Vec<Selector>,
}

impl ObjectFilter {
    /// Returns whether an object is visible whatever its labels are.
    pub fn allows_name(&self, name: &str) -> bool {
        self.names.contains(name) || self.classes.iter().any(|classes| classes.allows_name(name))
    }

    /// Returns whether an object is visible.
    pub fn allows(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        self.allows_name(name)
            || labels.get(TENANT_LABEL).is_some_and(|tenant| self.tenants.contains(tenant))
            || self.classes.iter().any(|classes| classes.allows_labels(labels))
            || self.selectors.iter().any(|selector| selector.matches(labels))
    }

    /// Returns whether labels can make an object visible, so that it can become visible or stop to be.
    pub fn has_selector(&self) -> bool {
        !self.tenants.is_empty()
            || !self.selectors.is_empty()
            || self.classes.iter().any(ClassFilter::has_selector)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::selector;

    fn scope(tenants: &[&str], classes: &[Value], selectors: &[Value]) -> Scope {
        let of = |value: &Value| serde_json::from_value(value.clone()).unwrap();
        Scope {
            tenants: tenants.iter().map(|name| (*name).to_owned()).collect(),
            classes: classes.iter().map(|list| serde_json::from_value(list.clone()).unwrap()).collect(),
            selectors: selectors.iter().map(of).collect(),
            ..Scope::default()
        }
    }

    fn text(scope: &Scope, kind: ViewKind) -> Option<String> {
        let requirements = scope.requirements(kind)?;
        Some(selector::Selector::default().with_first(requirements).to_string())
    }

    const NOTHING: &str = "capsule.clastix.io/tenant,!capsule.clastix.io/tenant";

    #[test]
    fn api_server_selects_by_tenant_or_by_one_selector() {
        let tenants = scope(&["oil", "gas"], &[], &[]);
        let of_tenants = Some("capsule.clastix.io/tenant in (gas,oil)".to_owned());
        assert_eq!(text(&tenants, ViewKind::Namespaces), of_tenants);
        assert_eq!(text(&tenants, ViewKind::PersistentVolumes), of_tenants);
        assert_eq!(text(&tenants, ViewKind::Tenants), None);
        let fast = json!({ "matchLabels": { "tier": "fast" } });
        let one = scope(&[], &[], std::slice::from_ref(&fast));
        assert_eq!(text(&one, ViewKind::ClusterResources), Some("tier in (fast)".to_owned()));
        assert_eq!(text(&scope(&[], &[], &[]), ViewKind::StorageClasses), Some(NOTHING.to_owned()));
        for several in [
            scope(&["oil"], &[], std::slice::from_ref(&fast)),
            scope(&[], &[json!({ "allowed": ["a"] })], &[]),
            scope(&[], &[], &[fast.clone(), json!({ "matchLabels": { "tier": "slow" } })]),
        ] {
            assert_eq!(text(&several, ViewKind::PersistentVolumes), None, "{several:?}");
        }
    }

    #[test]
    fn namespaces_are_selected_by_name_or_filtered() {
        let mut scope = Scope { namespaces: ["b".to_owned(), "a".to_owned()].into(), ..Scope::default() };
        let by_name = Some("kubernetes.io/metadata.name in (a,b)".to_owned());
        assert_eq!(text(&scope, ViewKind::Namespaces), by_name);
        scope.tenants.insert("oil".to_owned());
        assert_eq!(text(&scope, ViewKind::Namespaces), None);
        let filter = scope.filter(ViewKind::Namespaces);
        let of_tenant = [(TENANT_LABEL.to_owned(), "oil".to_owned())].into();
        assert!(filter.allows_name("a") && filter.allows("c", &of_tenant) && !filter.allows_name("oil"));
        scope = Scope { namespaces: (0..=MAX_NAMES).map(|n| n.to_string()).collect(), ..Scope::default() };
        assert_eq!(text(&scope, ViewKind::Namespaces), None, "too many for a selector");
    }

    #[test]
    fn selector_that_is_empty_or_invalid_selects_nothing() {
        for selector in [
            json!({}),
            json!({ "matchExpressions": [{ "key": "a", "operator": "Like", "values": ["b"] }] }),
            json!({ "matchLabels": { "a": "b)" } }),
        ] {
            let scope = scope(&[], &[], std::slice::from_ref(&selector));
            assert_eq!(text(&scope, ViewKind::ClusterResources), Some(NOTHING.to_owned()), "{selector}");
            assert!(!scope.filter(ViewKind::ClusterResources).allows("x", &BTreeMap::new()), "{selector}");
        }
    }

    #[test]
    fn filter_allows_what_one_of_its_parts_allows() {
        let labels = |value: Value| serde_json::from_value(value).unwrap();
        let classes = [json!({ "allowed": ["a"] }), json!({ "matchLabels": { "tier": "oil" } })];
        let scope = scope(&["oil"], &classes, &[json!({ "matchLabels": { "all": "yes" } })]);
        let filter = scope.filter(ViewKind::StorageClasses);
        assert!(filter.allows_name("a") && !filter.allows_name("oil") && filter.has_selector());
        for (object, expected) in [
            (json!({}), false),
            (json!({ "tier": "oil" }), true),
            (json!({ "all": "yes" }), true),
            (json!({ "capsule.clastix.io/tenant": "oil" }), true),
            (json!({ "capsule.clastix.io/tenant": "gas" }), false),
        ] {
            assert_eq!(filter.allows("b", &labels(object.clone())), expected, "{object}");
        }
        let of_tenants = scope.filter(ViewKind::Tenants);
        assert!(of_tenants.allows_name("oil"));
        assert!(!of_tenants.allows("b", &labels(json!({ "capsule.clastix.io/tenant": "oil" }))));
    }
}
