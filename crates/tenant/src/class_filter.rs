//! Which classes a Tenant allows. Pure, but for a cache of what was compiled.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{
    Resource, ResourceExt,
    core::{Selector, SelectorExt},
};
use operator_core::{informer::Store, kind::uid};
use parking_lot::Mutex;
use regex::Regex;

use crate::{
    api::v1beta2::{DefaultAllowedList, Tenant},
    pattern,
};

/// The names, the pattern and the labels that a list allows, ready to be asked.
#[derive(Debug)]
pub struct Allowed {
    names: HashSet<String>,
    default: Option<String>,
    pattern: Option<Regex>,
    selector: Option<Selector>,
    words: String,
}

impl Allowed {
    /// Of a list. A pattern or selector that cannot be used, which no admitted Tenant has, allows nothing.
    pub fn of(list: &DefaultAllowedList) -> Self {
        let pattern = list.allowed_regex.as_deref().filter(|pattern| !pattern.is_empty());
        let default = list.default.as_deref().filter(|default| !default.is_empty());
        let selector = LabelSelector {
            match_labels: list.match_labels.clone().filter(|labels| !labels.is_empty()),
            match_expressions: list.match_expressions.clone().filter(|expressions| !expressions.is_empty()),
        };
        let selects = selector != LabelSelector::default();
        Self {
            names: list.allowed.iter().cloned().collect(),
            default: default.map(str::to_owned),
            pattern: pattern.and_then(|pattern| pattern::compile(pattern).ok().flatten()),
            words: words(list, default, pattern, selects),
            selector: selects.then(|| Selector::try_from(selector).ok()).flatten(),
        }
    }

    /// The class for who names none.
    pub fn default_class(&self) -> Option<&str> {
        self.default.as_deref()
    }

    /// Whether a class is allowed by its name alone.
    pub fn has_name(&self, name: &str) -> bool {
        self.default.as_deref() == Some(name)
            || self.names.contains(name)
            || self.pattern.as_ref().is_some_and(|pattern| pattern.is_match(name))
    }

    /// Whether the labels of a class may allow it.
    pub fn asks_for_labels(&self) -> bool {
        self.selector.is_some()
    }

    /// Whether a class is allowed by its labels.
    pub fn has_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }

    /// Whether a class that is there is allowed.
    pub fn has<K: Resource>(&self, class: &K) -> bool {
        self.has_name(&class.name_any()) || self.has_labels(class.labels())
    }
}

/// For people: what is allowed.
impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

fn words(list: &DefaultAllowedList, default: Option<&str>, pattern: Option<&str>, selects: bool) -> String {
    let default = default.map(str::to_owned).filter(|default| !list.allowed.contains(default));
    let names = list.allowed.iter().cloned().chain(default);
    let pattern = pattern.map(|pattern| format!("what matches {pattern:?}"));
    let labels = selects.then(|| "those whose labels its selector picks".to_owned());
    let all: Vec<_> = names.chain(pattern).chain(labels).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

/// What a Tenant allows.
#[derive(Debug, Default)]
pub struct Classes {
    /// Of IngressClasses, if it limits them.
    pub ingress: Option<Allowed>,
    /// Of StorageClasses, if it limits them.
    pub storage: Option<Allowed>,
}

impl Classes {
    /// Of a Tenant.
    pub fn of(tenant: &Tenant) -> Self {
        let ingress =
            tenant.spec.ingress_options.as_ref().and_then(|options| options.allowed_classes.as_ref());
        Self {
            ingress: ingress.map(Allowed::of),
            storage: tenant.spec.storage_classes.as_ref().map(Allowed::of),
        }
    }
}

/// What Tenants allow, compiled once for each generation of each.
#[derive(Debug, Default)]
pub struct Compiled(Mutex<HashMap<String, OfGeneration>>);

type OfGeneration = (Option<i64>, Arc<Classes>);

impl Compiled {
    /// What a Tenant of the store allows. Tenants that are gone are forgotten.
    pub fn of(&self, tenant: &Tenant, store: &Store<Tenant>) -> Arc<Classes> {
        let (uid, generation) = (uid(tenant), tenant.metadata.generation);
        let mut known = self.0.lock();
        if let Some((compiled_for, classes)) = known.get(&uid)
            && *compiled_for == generation
        {
            return classes.clone();
        }
        let classes = Arc::new(Classes::of(tenant));
        known.insert(uid, (generation, classes.clone()));
        if known.len() > store.len() {
            let there: HashSet<_> =
                store.list().iter().map(|tenant| operator_core::kind::uid(tenant.as_ref())).collect();
            known.retain(|uid, _| there.contains(uid));
        }
        classes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn allowed(list: Value) -> Allowed {
        Allowed::of(&serde_json::from_value(list).unwrap())
    }

    proptest! {
        #[test]
        fn cve_2026_61672_membership_is_what_a_look_at_each_name_says(
            names in prop::collection::vec("[a-cA-C]{1,3}", 0..12),
            asked in "[a-cA-C]{1,3}",
        ) {
            let is_listed = names.contains(&asked);
            prop_assert_eq!(allowed(json!({ "allowed": names })).has_name(&asked), is_listed);
        }

        #[test]
        fn cve_2026_65834_no_pattern_panics(pattern in ".{0,40}", name in "[a-z]{0,4}") {
            let _ = allowed(json!({ "allowedRegex": pattern })).has_name(&name);
        }
    }

    #[test]
    fn names_the_default_and_a_pattern_anywhere_in_the_name_allow() {
        let list = allowed(json!({ "allowed": ["fast"], "allowedRegex": "oil", "default": "usual" }));
        for name in ["fast", "usual", "oil", "my-oil-class"] {
            assert!(list.has_name(name), "{name}");
        }
        for name in ["Fast", "fas", "", "gas"] {
            assert!(!list.has_name(name), "{name}");
        }
        assert!(!list.asks_for_labels());
    }

    #[test]
    fn cve_2026_65834_a_pattern_that_cannot_be_compiled_allows_nothing() {
        for pattern in ["(", "\\Qa\\E", "(\\pL{100}){100}"] {
            let list = allowed(json!({ "allowed": ["fast"], "allowedRegex": pattern }));
            assert!(list.has_name("fast") && !list.has_name("("), "{pattern}");
        }
    }

    #[test]
    fn labels_allow_where_there_is_a_selector() {
        let labels = |pairs: Value| serde_json::from_value(pairs).unwrap();
        let list = allowed(json!({
            "matchLabels": { "tier": "oil" }, "matchExpressions": [{ "key": "old", "operator": "DoesNotExist" }],
        }));
        assert!(list.has_labels(&labels(json!({ "tier": "oil", "x": "y" }))));
        assert!(!list.has_labels(&labels(json!({ "tier": "oil", "old": "" }))));
        assert!(!list.has_labels(&labels(json!({}))));
        // An empty selector of Kubernetes picks all; here it is none.
        let empty = allowed(json!({ "matchLabels": {}, "matchExpressions": [] }));
        assert!(!empty.asks_for_labels() && !empty.has_labels(&labels(json!({}))));
        let odd = allowed(json!({ "matchExpressions": [{ "key": "a", "operator": "Like" }] }));
        assert!(!odd.has_labels(&labels(json!({ "a": "b" }))));
    }

    #[test]
    fn an_empty_pattern_or_default_allows_nothing() {
        for list in [json!({}), json!({ "allowed": [], "allowedRegex": "", "default": "" })] {
            let list = allowed(list);
            assert!(!list.has_name("") && !list.has_name("fast"), "{list}");
            assert_eq!((list.default_class(), list.to_string().as_str()), (None, "none"));
        }
    }

    #[test]
    fn people_are_told_what_is_allowed() {
        let list =
            json!({ "allowed": ["a"], "default": "b", "allowedRegex": "^c", "matchLabels": { "x": "y" } });
        assert_eq!(
            allowed(list).to_string(),
            "a, b, what matches \"^c\", those whose labels its selector picks"
        );
        assert_eq!(allowed(json!({})).to_string(), "none");
    }
}
