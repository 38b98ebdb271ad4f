//! Classes that a Tenant allows. Pure.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{
    Resource, ResourceExt,
    core::{Selector, SelectorExt},
};

use crate::{
    api::v1beta2::{DefaultAllowedList, SelectorAllowedList, Tenant},
    name_filter::NameFilter,
};

/// Compiled list of allowed classes.
#[derive(Debug)]
pub struct ClassFilter {
    names: NameFilter,
    default: Option<String>,
    selector: Option<Selector>,
    description: String,
}

impl ClassFilter {
    /// Compiles a list. An invalid pattern or selector allows nothing. Admission rejects Tenants
    /// with such lists.
    pub fn new(list: &DefaultAllowedList) -> Self {
        let pattern = list.allowed_regex.as_deref().filter(|pattern| !pattern.is_empty());
        let default = list.default.as_deref().filter(|default| !default.is_empty());
        let selector = LabelSelector {
            match_labels: list.match_labels.clone().filter(|labels| !labels.is_empty()),
            match_expressions: list.match_expressions.clone().filter(|expressions| !expressions.is_empty()),
        };
        let has_selector = list.has_selector();
        Self {
            names: NameFilter::new(&list.allowed, pattern),
            default: default.map(str::to_owned),
            description: describe(list, default, pattern, has_selector),
            selector: has_selector.then(|| Selector::try_from(selector).ok()).flatten(),
        }
    }

    /// Returns the class for objects that do not set one.
    pub fn default_class(&self) -> Option<&str> {
        self.default.as_deref()
    }

    /// Returns whether the name of a class allows it.
    pub fn allows_name(&self, name: &str) -> bool {
        self.default.as_deref() == Some(name) || self.names.matches(name)
    }

    /// Returns whether the list has a label selector.
    pub fn has_selector(&self) -> bool {
        self.selector.is_some()
    }

    /// Returns whether the labels of a class allow it.
    pub fn allows_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }

    /// Returns whether an existing class is allowed.
    pub fn allows<K: Resource>(&self, class: &K) -> bool {
        self.allows_name(&class.name_any()) || self.allows_labels(class.labels())
    }
}

/// Lists what is allowed, for messages.
impl fmt::Display for ClassFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.description)
    }
}

fn describe(
    list: &DefaultAllowedList,
    default: Option<&str>,
    pattern: Option<&str>,
    has_selector: bool,
) -> String {
    let default = default.map(str::to_owned).filter(|default| !list.allowed.contains(default));
    let names = list.allowed.iter().cloned().chain(default);
    let pattern = pattern.map(|pattern| format!("names that match {pattern:?}"));
    let labels = has_selector.then(|| "classes whose labels match the selector".to_owned());
    let all: Vec<_> = names.chain(pattern).chain(labels).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

/// Class filters of a Tenant. A kind without a list is unrestricted.
#[derive(Debug, Default)]
pub struct ClassFilters {
    /// Filter for IngressClasses.
    pub ingress: Option<ClassFilter>,
    /// Filter for StorageClasses.
    pub storage: Option<ClassFilter>,
    /// Filter for PriorityClasses.
    pub priority: Option<ClassFilter>,
    /// Filter for RuntimeClasses.
    pub runtime: Option<ClassFilter>,
    /// Filter for GatewayClasses.
    pub gateway: Option<ClassFilter>,
    /// Filter for DeviceClasses.
    pub device: Option<ClassFilter>,
}

impl From<&Tenant> for ClassFilters {
    fn from(tenant: &Tenant) -> Self {
        let spec = &tenant.spec;
        let ingress = spec.ingress_options.as_ref().and_then(|options| options.allowed_classes.as_ref());
        let gateway = spec.gateway_options.as_ref().and_then(|options| options.allowed_classes.as_ref());
        let device = spec.device_classes.clone().map(without_default);
        let filter = |list: Option<&DefaultAllowedList>| list.map(ClassFilter::new);
        Self {
            ingress: filter(ingress),
            storage: filter(spec.storage_classes.as_ref()),
            priority: filter(spec.priority_classes.as_ref()),
            runtime: filter(spec.runtime_classes.as_ref()),
            gateway: filter(gateway),
            device: filter(device.as_ref()),
        }
    }
}

fn without_default(list: SelectorAllowedList) -> DefaultAllowedList {
    let SelectorAllowedList { allowed, allowed_regex, match_labels, match_expressions } = list;
    DefaultAllowedList { allowed, allowed_regex, match_labels, match_expressions, default: None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn filter(list: Value) -> ClassFilter {
        ClassFilter::new(&serde_json::from_value(list).unwrap())
    }

    proptest! {
        #[test]
        fn cve_2026_61672_list_allows_exactly_its_names(
            names in prop::collection::vec("[a-cA-C]{1,3}", 0..12),
            name in "[a-cA-C]{1,3}",
        ) {
            let is_listed = names.contains(&name);
            prop_assert_eq!(filter(json!({ "allowed": names })).allows_name(&name), is_listed);
        }

        #[test]
        fn cve_2026_65834_pattern_never_panics(pattern in ".{0,40}", name in "[a-z]{0,4}") {
            let _ = filter(json!({ "allowedRegex": pattern })).allows_name(&name);
        }
    }

    #[test]
    fn names_default_and_unanchored_pattern_allow_a_class() {
        let list = filter(json!({ "allowed": ["fast"], "allowedRegex": "oil", "default": "usual" }));
        for name in ["fast", "usual", "oil", "my-oil-class"] {
            assert!(list.allows_name(name), "{name}");
        }
        for name in ["Fast", "fas", "", "gas"] {
            assert!(!list.allows_name(name), "{name}");
        }
        assert!(!list.has_selector());
    }

    #[test]
    fn cve_2026_65834_invalid_pattern_allows_nothing() {
        for pattern in ["(", "\\Qa\\E", "(\\pL{100}){100}"] {
            let list = filter(json!({ "allowed": ["fast"], "allowedRegex": pattern }));
            assert!(list.allows_name("fast") && !list.allows_name("("), "{pattern}");
        }
    }

    #[test]
    fn selector_allows_classes_by_their_labels() {
        let labels = |pairs: Value| serde_json::from_value(pairs).unwrap();
        let list = filter(json!({
            "matchLabels": { "tier": "oil" }, "matchExpressions": [{ "key": "old", "operator": "DoesNotExist" }],
        }));
        assert!(list.allows_labels(&labels(json!({ "tier": "oil", "x": "y" }))));
        assert!(!list.allows_labels(&labels(json!({ "tier": "oil", "old": "" }))));
        assert!(!list.allows_labels(&labels(json!({}))));
        // Unlike in Kubernetes, an empty selector selects nothing.
        let empty = filter(json!({ "matchLabels": {}, "matchExpressions": [] }));
        assert!(!empty.has_selector() && !empty.allows_labels(&labels(json!({}))));
        let invalid = filter(json!({ "matchExpressions": [{ "key": "a", "operator": "Like" }] }));
        assert!(!invalid.allows_labels(&labels(json!({ "a": "b" }))));
    }

    #[test]
    fn empty_pattern_and_default_allow_nothing() {
        for list in [json!({}), json!({ "allowed": [], "allowedRegex": "", "default": "" })] {
            let list = filter(list);
            assert!(!list.allows_name("") && !list.allows_name("fast"), "{list}");
            assert_eq!((list.default_class(), list.to_string().as_str()), (None, "none"));
        }
    }

    #[test]
    fn display_lists_what_is_allowed() {
        let list =
            json!({ "allowed": ["a"], "default": "b", "allowedRegex": "^c", "matchLabels": { "x": "y" } });
        assert_eq!(
            filter(list).to_string(),
            "a, b, names that match \"^c\", classes whose labels match the selector"
        );
        assert_eq!(filter(json!({})).to_string(), "none");
    }
}
