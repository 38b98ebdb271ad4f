//! Reviews in which users ask what they may do. Programs such as k9s ask before they list.
//!
//! The API server does not know the views of the proxy, so the proxy adds them to its responses.

use capsule::cluster_resources::Resource;
use serde_json::{Value, json};

use crate::view::{View, ViewKind};

/// A review of a user about the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelfReview {
    /// Whether the user may do one thing.
    Access,
    /// What the user may do in a namespace.
    Rules,
}

impl SelfReview {
    /// Returns the review of a request, or `None` if it is none.
    pub fn of(method: &str, path: &str) -> Option<Self> {
        match (method, path) {
            ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews") => Some(Self::Access),
            ("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews") => Some(Self::Rules),
            _ => None,
        }
    }
}

/// Returns the view of what a refused access review asks for. `None`: it is allowed, or has no view.
///
/// The namespace of the question does not matter: kinds with a view are in none.
pub fn view_of(review: &Value) -> Option<View> {
    if review.pointer("/status/allowed") != Some(&Value::Bool(false)) {
        return None;
    }
    let asked = review.pointer("/spec/resourceAttributes")?;
    let text = |field: &str| asked.get(field).and_then(Value::as_str).unwrap_or_default();
    let (name, verb) = (text("name"), text("verb"));
    let name = match verb {
        // The view has the names that a field selector can ask for. k9s names the namespace that it shows.
        "list" | "watch" => None,
        "get" if !name.is_empty() => Some(name),
        _ => return None,
    };
    if !text("subresource").is_empty() {
        return None;
    }
    let resource = Resource {
        group: text("group").to_owned(),
        version: text("version").to_owned(),
        plural: text("resource").to_owned(),
    };
    // Questions can leave out the version.
    let is_any = matches!(resource.version.as_str(), "" | "*");
    let known = ViewKind::ALL.into_iter().filter_map(View::of_all).find(|view| {
        is_any && view.resource().group == resource.group && view.resource().plural == resource.plural
    });
    let resource = known.map_or(resource, |view| view.resource().clone());
    View::new(resource, name)
}

/// Returns whether the response to an access review allows what it asks for.
pub fn is_allowed(response: &[u8]) -> bool {
    let review = serde_json::from_slice::<Value>(response);
    review.is_ok_and(|review| review.pointer("/status/allowed") == Some(&Value::Bool(true)))
}

/// Allows what a review asks for.
pub fn allow(review: &mut Value) {
    if let Some(status) = review.get_mut("status") {
        *status = json!({ "allowed": true, "reason": "the proxy shows what the user may see" });
    }
}

/// A rule of what a user may do: verbs, group, plural name, and the names of objects, if only those.
pub struct ShownRule {
    /// Verbs.
    pub verbs: &'static [&'static str],
    /// API groups.
    pub groups: Vec<String>,
    /// Plural names of kinds.
    pub plurals: Vec<String>,
    /// Names of objects. Empty: all.
    pub names: Vec<String>,
}

/// Adds rules to the response of a rules review. Returns whether it is one.
pub fn add_rules(review: &mut Value, rules: Vec<ShownRule>) -> bool {
    let Some(status) = review.get_mut("status").and_then(Value::as_object_mut) else { return false };
    let all = status.entry("resourceRules").or_insert(Value::Null);
    // The API server writes an empty list as null.
    if all.is_null() {
        *all = json!([]);
    }
    let Some(all) = all.as_array_mut() else { return false };
    all.extend(rules.into_iter().map(|ShownRule { verbs, groups, plurals, names }| {
        let names = (!names.is_empty()).then_some(("resourceNames", json!(names)));
        let fields = [("verbs", json!(verbs)), ("apiGroups", json!(groups)), ("resources", json!(plurals))];
        fields.into_iter().chain(names).map(|(name, value)| (name.to_owned(), value)).collect()
    }));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review(allowed: bool, asked: &Value) -> Value {
        json!({"spec": {"resourceAttributes": asked}, "status": {"allowed": allowed, "reason": "x"}})
    }

    #[test]
    fn refused_questions_about_kinds_with_a_view_have_one() {
        let namespaces =
            json!({"verb": "list", "resource": "namespaces", "version": "v1", "namespace": "default"});
        for (asked, path) in [
            (namespaces.clone(), "/api/v1/namespaces"),
            (json!({"verb": "watch", "resource": "namespaces"}), "/api/v1/namespaces"),
            (
                json!({"verb": "list", "resource": "namespaces", "namespace": "default", "name": "default"}),
                "/api/v1/namespaces",
            ),
            (
                json!({"verb": "list", "group": "storage.k8s.io", "version": "*", "resource": "storageclasses"}),
                "/apis/storage.k8s.io/v1/storageclasses",
            ),
            (
                json!({"verb": "get", "group": "capsule.clastix.io", "resource": "tenants", "name": "oil"}),
                "/apis/capsule.clastix.io/v1beta2/tenants/oil",
            ),
            (json!({"verb": "list", "version": "v1", "resource": "nodes"}), "/api/v1/nodes"),
        ] {
            assert_eq!(view_of(&review(false, &asked)).unwrap().to_string(), path);
            assert_eq!(view_of(&review(true, &asked)), None);
        }
        for asked in [
            json!({"verb": "create", "resource": "namespaces", "version": "v1"}),
            json!({"verb": "get", "resource": "namespaces", "version": "v1", "name": "oil-dev"}),
            json!({"verb": "get", "resource": "nodes", "version": "v1"}),
            json!({"verb": "list", "resource": "nodes", "version": "v1", "subresource": "status"}),
            json!({"verb": "list", "resource": "nodes"}),
            json!({"verb": "list", "resource": "../secrets", "version": "v1"}),
            json!({"verb": 7}),
            Value::Null,
        ] {
            assert_eq!(view_of(&review(false, &asked)), None, "{asked}");
        }
        assert_eq!(view_of(&json!({"kind": "Status", "status": "Failure"})), None);
    }

    #[test]
    fn review_is_allowed_and_rules_are_added() {
        let mut access = review(false, &Value::Null);
        assert!(!is_allowed(access.to_string().as_bytes()) && !is_allowed(b"{}") && !is_allowed(b""));
        allow(&mut access);
        assert!(is_allowed(access.to_string().as_bytes()));
        let rules = || {
            let (groups, plurals) = (vec![String::new()], vec!["namespaces".to_owned()]);
            vec![ShownRule { verbs: &["list", "watch"], groups, plurals, names: Vec::new() }]
        };
        for existing in [Value::Null, json!([])] {
            let mut review = json!({"status": {"resourceRules": existing, "incomplete": false}});
            assert!(add_rules(&mut review, rules()));
            let expected =
                json!([{"verbs": ["list", "watch"], "apiGroups": [""], "resources": ["namespaces"]}]);
            assert_eq!(review["status"]["resourceRules"], expected);
        }
        assert!(!add_rules(&mut json!({"status": "Failure"}), rules()));
    }

    #[test]
    fn only_the_exact_requests_are_reviews() {
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        assert_eq!(SelfReview::of("POST", path), Some(SelfReview::Access));
        for (method, path) in [
            ("GET", path),
            ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/"),
            ("POST", "/apis/authorization.k8s.io/v1//selfsubjectaccessreviews"),
            ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews"),
        ] {
            assert_eq!(SelfReview::of(method, path), None, "{method} {path}");
        }
    }
}
