//! Typed RBAC rules: group and resource come from the kind, so a rule cannot name what does not exist.
//!
//! ```
//! use k8s_openapi::api::core::v1::Pod;
//! use operator_core::rbac::{CREATE, DELETE, LIST, WATCH, rule};
//!
//! let pods = rule::<Pod>(LIST | WATCH | CREATE | DELETE).into_policy();
//! assert_eq!(pods.resources, Some(vec!["pods".to_owned()]));
//! assert_eq!(pods.verbs, ["list", "watch", "create", "delete"]);
//! ```

mod grant;

use std::ops::BitOr;

pub use grant::Grant;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::core::ApiResource;

use crate::kind::Kind;

/// A set of verbs; combined with `|`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verbs(u16);

/// Read one object.
pub const GET: Verbs = Verbs(1);
/// Read all objects of a scope.
pub const LIST: Verbs = Verbs(1 << 1);
/// Follow changes.
pub const WATCH: Verbs = Verbs(1 << 2);
/// Make an object.
pub const CREATE: Verbs = Verbs(1 << 3);
/// Replace an object.
pub const UPDATE: Verbs = Verbs(1 << 4);
/// Change parts of an object; server-side apply needs it too.
pub const PATCH: Verbs = Verbs(1 << 5);
/// Delete one object.
pub const DELETE: Verbs = Verbs(1 << 6);
/// Give a role to somebody without holding its rights; only ever with [`Rule::named`].
pub const BIND: Verbs = Verbs(1 << 7);

const NAMES: [(Verbs, &str); 8] = [
    (GET, "get"),
    (LIST, "list"),
    (WATCH, "watch"),
    (CREATE, "create"),
    (UPDATE, "update"),
    (PATCH, "patch"),
    (DELETE, "delete"),
    (BIND, "bind"),
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

/// One rule of a role. Made by [`rule`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    group: String,
    resource: String,
    verbs: Verbs,
    names: Vec<String>,
    namespaced: bool,
}

/// The rule that allows `verbs` on the objects of kind `K`.
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

/// As [`rule`], for a kind that is known when the program runs.
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
    /// The rule for a subresource, `status` or `finalizers` for example, instead of the objects themselves.
    #[must_use]
    pub fn subresource(mut self, name: &str) -> Self {
        self.resource = format!("{}/{name}", self.resource);
        self
    }

    /// Narrows the rule to objects of these names.
    #[must_use]
    pub fn named<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.names = names.into_iter().map(str::to_owned).collect();
        self
    }

    /// Whether the objects live in namespaces, so that a Role can grant this.
    pub fn is_namespaced(&self) -> bool {
        self.namespaced
    }

    /// What the rule is about, as kubectl names it: `pods`, `podsets.app.example.com/status`.
    pub fn resource(&self) -> String {
        let Self { group, resource, .. } = self;
        match (group.as_str(), resource.split_once('/')) {
            ("", _) => resource.clone(),
            (group, Some((plural, subresource))) => format!("{plural}.{group}/{subresource}"),
            (group, None) => format!("{resource}.{group}"),
        }
    }

    /// The rule as a role carries it.
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
    fn a_rule_takes_group_and_plural_from_the_kind() {
        let policy = rule::<ClusterRole>(BIND | GET).named(["admin"]).into_policy();
        assert_eq!(policy.api_groups, Some(vec!["rbac.authorization.k8s.io".to_owned()]));
        assert_eq!(policy.resources, Some(vec!["clusterroles".to_owned()]));
        assert_eq!(policy.resource_names, Some(vec!["admin".to_owned()]));
        assert_eq!(policy.verbs, ["get", "bind"]);
    }

    #[test]
    fn a_subresource_is_written_behind_the_resource() {
        let policy = rule::<ClusterRole>(UPDATE).subresource("status").into_policy();
        assert_eq!(policy.resources, Some(vec!["clusterroles/status".to_owned()]));
        assert_eq!(policy.resource_names, None);
    }
    #[test]
    fn a_rule_knows_whether_a_namespace_can_grant_it_and_what_kubectl_calls_it() {
        let bindings = rule::<RoleBinding>(GET).subresource("status");
        assert!(bindings.is_namespaced());
        assert_eq!(bindings.resource(), "rolebindings.rbac.authorization.k8s.io/status");
        assert!(!rule::<ClusterRole>(GET).is_namespaced());
        assert_eq!(rule::<k8s_openapi::api::core::v1::Pod>(GET).resource(), "pods");
    }
}
