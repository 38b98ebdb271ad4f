//! RBAC rules. Group and resource come from the Rust type, so a rule cannot refer to an unknown
//! kind.
//!
//! ```
//! use k8s_openapi::api::core::v1::Pod;
//! use operator_core::rbac::{CREATE, DELETE, LIST, WATCH, rule};
//!
//! let pods = rule::<Pod>(LIST | WATCH | CREATE | DELETE).into_policy();
//! assert_eq!(pods.resources, Some(vec!["pods".to_owned()]));
//! assert_eq!(pods.verbs, ["list", "watch", "create", "delete"]);
//! ```

use std::ops::BitOr;

use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::core::ApiResource;

use crate::kind::Kind;

/// A set of verbs. Combine them with `|`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verbs(u16);

/// Reads one object.
pub const GET: Verbs = Verbs(1);
/// Lists objects.
pub const LIST: Verbs = Verbs(1 << 1);
/// Watches objects.
pub const WATCH: Verbs = Verbs(1 << 2);
/// Creates an object.
pub const CREATE: Verbs = Verbs(1 << 3);
/// Replaces an object.
pub const UPDATE: Verbs = Verbs(1 << 4);
/// Patches an object, also with server-side apply.
pub const PATCH: Verbs = Verbs(1 << 5);
/// Deletes one object.
pub const DELETE: Verbs = Verbs(1 << 6);
/// Binds a role without having its permissions. Use it only with [`Rule::named`].
pub const BIND: Verbs = Verbs(1 << 7);
/// Acts as a ServiceAccount.
pub const IMPERSONATE: Verbs = Verbs(1 << 8);

const NAMES: [(Verbs, &str); 9] = [
    (GET, "get"),
    (LIST, "list"),
    (WATCH, "watch"),
    (CREATE, "create"),
    (UPDATE, "update"),
    (PATCH, "patch"),
    (DELETE, "delete"),
    (BIND, "bind"),
    (IMPERSONATE, "impersonate"),
];

impl BitOr for Verbs {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Verbs {
    fn names(self) -> Vec<String> {
        NAMES.iter().filter(|(verb, _)| self.0 & verb.0 != 0).map(|(_, name)| (*name).to_owned()).collect()
    }
}

/// A rule of a role. Created by [`rule`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    group: String,
    resource: String,
    verbs: Verbs,
    names: Vec<String>,
    namespaced: bool,
}

/// Returns the rule that allows `verbs` on objects of kind `K`.
#[must_use]
pub fn rule<K: Kind>(verbs: Verbs) -> Rule {
    Rule {
        group: K::group(&()).into_owned(),
        resource: K::plural(&()).into_owned(),
        verbs,
        names: Vec::new(),
        namespaced: K::NAMESPACED,
    }
}

/// Returns a rule like [`rule`] for a kind that is known only at run time.
#[must_use]
pub fn rule_on(resource: &ApiResource, namespaced: bool, verbs: Verbs) -> Rule {
    Rule {
        group: resource.group.clone(),
        resource: resource.plural.clone(),
        verbs,
        names: Vec::new(),
        namespaced,
    }
}

impl Rule {
    /// Applies the rule to a subresource, such as `status` or `finalizers`.
    #[must_use]
    pub fn subresource(mut self, name: &str) -> Self {
        self.resource = format!("{}/{name}", self.resource);
        self
    }

    /// Limits the rule to objects with these names.
    #[must_use]
    pub fn named<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.names = names.into_iter().map(str::to_owned).collect();
        self
    }

    /// Returns whether the kind is namespaced, so that a Role can contain the rule.
    pub fn is_namespaced(&self) -> bool {
        self.namespaced
    }

    /// Returns the resource as kubectl names it, such as `podsets.app.example.com/status`.
    pub fn resource(&self) -> String {
        let Self { group, resource, .. } = self;
        match (group.as_str(), resource.split_once('/')) {
            ("", _) => resource.clone(),
            (group, Some((plural, subresource))) => format!("{plural}.{group}/{subresource}"),
            (group, None) => format!("{resource}.{group}"),
        }
    }

    /// Converts the rule into the type of the Kubernetes API.
    pub fn into_policy(self) -> PolicyRule {
        PolicyRule {
            api_groups: Some(vec![self.group]),
            resources: Some(vec![self.resource]),
            resource_names: (!self.names.is_empty()).then_some(self.names),
            verbs: self.verbs.names(),
            non_resource_urls: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::rbac::v1::{ClusterRole, RoleBinding};

    use super::*;

    #[test]
    fn rule_has_group_and_plural_of_the_kind() {
        let policy = rule::<ClusterRole>(BIND | GET).named(["admin"]).into_policy();
        assert_eq!(policy.api_groups, Some(vec!["rbac.authorization.k8s.io".to_owned()]));
        assert_eq!(policy.resources, Some(vec!["clusterroles".to_owned()]));
        assert_eq!(policy.resource_names, Some(vec!["admin".to_owned()]));
        assert_eq!(policy.verbs, ["get", "bind"]);
    }

    #[test]
    fn rule_for_a_subresource() {
        let policy = rule::<ClusterRole>(UPDATE).subresource("status").into_policy();
        assert_eq!(policy.resources, Some(vec!["clusterroles/status".to_owned()]));
        assert_eq!(policy.resource_names, None);
    }

    #[test]
    fn rule_reports_scope_and_resource() {
        let bindings = rule::<RoleBinding>(GET).subresource("status");
        assert!(bindings.is_namespaced());
        assert_eq!(bindings.resource(), "rolebindings.rbac.authorization.k8s.io/status");
        assert!(!rule::<ClusterRole>(GET).is_namespaced());
        assert_eq!(rule::<k8s_openapi::api::core::v1::Pod>(GET).resource(), "pods");
    }
}
