//! References to existing objects, with their tags replaced. Pure.

use std::fmt;

use capsule::api::v1beta2::SourceReference;
use kube::core::Selector;

use crate::{fast_template::Tags, gather::GatherError};

/// Existing objects to read. Equal references are read once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Reference {
    /// Group and version, as in the spec.
    pub(crate) api_version: String,
    pub(crate) kind: String,
    /// The namespace. `None` for all namespaces, and for cluster-scoped objects.
    pub(crate) namespace: Option<String>,
    pub(crate) filter: Filter,
    /// Whether the object with the name may be missing.
    pub(crate) optional: bool,
}

/// Which objects of a kind are read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Filter {
    /// The object with this name.
    Name(String),
    /// The objects that a label selector selects.
    Labels(String),
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespace = self.namespace.as_ref().map_or_else(String::new, |name| format!("{name}/"));
        match &self.filter {
            Filter::Name(name) => write!(f, "{} {namespace}{name}", self.kind),
            Filter::Labels(labels) => write!(f, "{} {namespace}* with the labels {labels:?}", self.kind),
        }
    }
}

/// Where a reference may lead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReferenceRules<'r> {
    /// Namespace of references that name none.
    pub(crate) default_namespace: Option<&'r str>,
    /// Namespaces that may be named. `None` for all.
    pub(crate) allowed_namespaces: Option<&'r [String]>,
}

impl Reference {
    /// Replaces the tags of a reference, and checks its namespace. `path` is its place in the spec.
    ///
    /// # Errors
    /// Returns an error if the namespace is not allowed, or if a name or the selector is invalid.
    pub(crate) fn resolve(
        source: &SourceReference,
        path: &str,
        tags: &Tags<'_>,
        rules: &ReferenceRules<'_>,
    ) -> Result<Self, GatherError> {
        let invalid = |message: String| GatherError::Invalid { path: path.to_owned(), message };
        let namespace = source.namespace.as_deref().map(|template| tags.text(template));
        let namespace =
            namespace.filter(|name| !name.is_empty()).or_else(|| rules.default_namespace.map(str::to_owned));
        if let Some(allowed) = rules.allowed_namespaces
            && !namespace.as_ref().is_some_and(|name| allowed.contains(name))
        {
            let namespace = namespace.unwrap_or_default();
            return Err(GatherError::CrossNamespace { path: path.to_owned(), namespace });
        }
        let name = source.name.as_deref().map(|template| tags.text(template));
        let filter = match name {
            Some(name) if name.is_empty() || name.contains(['/', '%', '?']) => {
                return Err(invalid("the name is empty or invalid after its tags are replaced".to_owned()));
            }
            Some(name) => Filter::Name(name),
            None => {
                let selector = source.selector.as_ref().map(|selector| tags.selector(selector));
                let selector = Selector::try_from(selector.unwrap_or_default());
                let selector =
                    selector.map_err(|error| invalid(format!("the selector is invalid: {error}")))?;
                Filter::Labels(selector.to_string())
            }
        };
        if source.kind == "*" || source.api_version.as_deref() == Some("*") {
            return Err(invalid("name one apiVersion and kind; * is not supported".to_owned()));
        }
        Ok(Self {
            api_version: source.api_version.clone().unwrap_or_default(),
            kind: source.kind.clone(),
            namespace,
            filter,
            optional: source.optional,
        })
    }
}

/// Returns the label keys of a selector.
pub(crate) fn selector_keys(source: &SourceReference, tags: &Tags<'_>) -> Vec<String> {
    let Some(selector) = source.selector.as_ref().map(|selector| tags.selector(selector)) else {
        return Vec::new();
    };
    let labels = selector.match_labels.into_iter().flatten().map(|(key, _)| key);
    let expressions = selector.match_expressions.into_iter().flatten().map(|requirement| requirement.key);
    labels.chain(expressions).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const TAGS: Tags<'static> = Tags { tenant: Some("oil"), namespace: Some("oil-dev") };

    fn source(value: Value) -> SourceReference {
        serde_json::from_value(value).unwrap()
    }

    fn resolve(
        value: Value,
        default: Option<&str>,
        allowed: Option<&[&str]>,
    ) -> Result<Reference, GatherError> {
        let allowed: Option<Vec<_>> =
            allowed.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        let rules = ReferenceRules { default_namespace: default, allowed_namespaces: allowed.as_deref() };
        Reference::resolve(&source(value), "spec.resources[0].context.resources[0]", &TAGS, &rules)
    }

    #[test]
    fn replaces_tags_in_name_namespace_and_selector() {
        let value = json!({ "kind": "Secret", "name": "{{tenant.name}}", "namespace": "{{namespace}}" });
        let reference = resolve(value, None, None).unwrap();
        assert_eq!(reference.to_string(), "Secret oil-dev/oil");
        let value = json!({ "kind": "Secret", "selector": { "matchLabels": { "for": "{{tenant.name}}" } } });
        let reference = resolve(value.clone(), Some("home"), None).unwrap();
        assert_eq!(reference.filter, Filter::Labels("for=oil".to_owned()));
        assert_eq!(reference.namespace.as_deref(), Some("home"));
        assert_eq!(selector_keys(&source(value), &TAGS), ["for"]);
    }

    #[test]
    fn rejects_foreign_namespaces_and_names_them() {
        let allowed: Option<&[&str]> = Some(&["oil-dev", "oil-prod"]);
        let named = |namespace: &str| json!({ "kind": "Secret", "name": "a", "namespace": namespace });
        assert!(resolve(named("{{namespace}}"), None, allowed).is_ok());
        let error = resolve(named("kube-system"), None, allowed).unwrap_err().to_string();
        assert!(error.contains("cross-namespace selection is not allowed"), "{error}");
        assert!(error.contains("kube-system") && error.contains("spec.resources[0]"), "{error}");
        assert!(resolve(json!({ "kind": "Secret", "name": "a" }), None, allowed).is_err(), "all namespaces");
    }

    #[test]
    fn rejects_names_that_change_the_request() {
        for name in ["{{other}}", "a/b", "../x", "a?b"] {
            assert!(resolve(json!({ "kind": "Secret", "name": name }), Some("x"), None).is_err(), "{name}");
        }
        assert!(resolve(json!({ "kind": "*" }), Some("x"), None).is_err());
        assert!(resolve(json!({ "apiVersion": "*", "kind": "Secret" }), Some("x"), None).is_err());
        let bad = json!({ "kind": "Secret", "selector": { "matchExpressions": [{ "key": "a", "operator": "x" }] } });
        assert!(resolve(bad, Some("x"), None).is_err());
    }
}
