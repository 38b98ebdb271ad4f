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

use std::ops::BitOr;

use k8s_openapi::api::{
    events::v1::Event,
    rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject},
};
use kube::{Resource, core::ObjectMeta};

use crate::{controller::Registration, labels};

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
}

/// The rule that allows `verbs` on the objects of kind `K`.
#[must_use]
pub fn rule<K: Resource<DynamicType = ()>>(verbs: Verbs) -> Rule {
    Rule {
        group: K::group(&()).into_owned(),
        resource: K::plural(&()).into_owned(),
        verbs,
        names: Vec::new(),
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

/// The role of a controller, `ensemble-<name>`: its own rules, and that it may publish Events.
pub fn cluster_role(controller: &Registration) -> ClusterRole {
    let mut rules = (controller.rules)();
    rules.push(rule::<Event>(CREATE | PATCH));
    ClusterRole {
        metadata: role_metadata(controller),
        rules: Some(rules.into_iter().map(Rule::into_policy).collect()),
        aggregation_rule: None,
    }
}

/// Gives a controller's role to a ServiceAccount.
pub fn cluster_role_binding(controller: &Registration, namespace: &str, account: &str) -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: role_metadata(controller),
        role_ref: RoleRef {
            api_group: Some(ClusterRole::group(&()).into_owned()),
            kind: ClusterRole::kind(&()).into_owned(),
            name: role_name(controller),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: account.to_owned(),
            namespace: Some(namespace.to_owned()),
            api_group: None,
        }]),
    }
}

fn role_name(controller: &Registration) -> String {
    format!("ensemble-{}", controller.name)
}

fn role_metadata(controller: &Registration) -> ObjectMeta {
    ObjectMeta {
        name: Some(role_name(controller)),
        labels: Some(labels::recommended("ensemble", "ensemble", controller.name)),
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
mod tests {
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
}
