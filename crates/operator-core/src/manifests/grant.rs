//! Roles and bindings for a ServiceAccount.

use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use kube::{Resource, core::ObjectMeta};

use crate::{
    labels,
    rbac::{CREATE, PATCH, Rule, rule},
    registration::Registration,
};

/// The permissions of one component of the manager, as a role `ensemble-<component>` with its
/// binding, for the whole cluster or for one namespace.
#[derive(Clone, Debug)]
pub struct Grant {
    component: String,
    rules: Vec<Rule>,
}

impl Grant {
    /// Returns the permissions of a component: a controller, or a part of the process such as
    /// `leader-election`.
    pub fn new(component: &str, rules: Vec<Rule>) -> Self {
        Self { component: component.to_owned(), rules }
    }

    /// Returns the permissions of a controller: its own rules, and the permission to write Events.
    pub fn of(controller: &Registration) -> Self {
        let mut rules = (controller.rules)();
        rules.push(rule::<k8s_openapi::api::events::v1::Event>(CREATE | PATCH));
        Self::new(controller.name, rules)
    }

    /// Returns the rules.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns the name of the role and of its binding.
    pub fn name(&self) -> String {
        format!("ensemble-{}", self.component)
    }

    /// Returns the ClusterRole.
    pub fn cluster_role(&self) -> ClusterRole {
        ClusterRole { metadata: self.metadata(None), rules: Some(self.policies()), aggregation_rule: None }
    }

    /// Returns the binding of [`Grant::cluster_role`] to the ServiceAccount `account` in
    /// `namespace`.
    pub fn cluster_role_binding(&self, namespace: &str, account: &str) -> ClusterRoleBinding {
        ClusterRoleBinding {
            metadata: self.metadata(None),
            role_ref: self.reference::<ClusterRole>(),
            subjects: Some(vec![subject(namespace, account)]),
        }
    }

    /// Returns the Role in the namespace `within`. Without it, the Role has no namespace.
    pub fn role(&self, within: Option<&str>) -> Role {
        Role { metadata: self.metadata(within), rules: Some(self.policies()) }
    }

    /// Returns the binding of [`Grant::role`] to the ServiceAccount `account` in `namespace`.
    pub fn role_binding(&self, within: Option<&str>, namespace: &str, account: &str) -> RoleBinding {
        RoleBinding {
            metadata: self.metadata(within),
            role_ref: self.reference::<Role>(),
            subjects: Some(vec![subject(namespace, account)]),
        }
    }

    fn policies(&self) -> Vec<PolicyRule> {
        self.rules.iter().cloned().map(Rule::into_policy).collect()
    }

    fn reference<R: Resource<DynamicType = ()>>(&self) -> RoleRef {
        RoleRef {
            api_group: Some(R::group(&()).into_owned()),
            kind: R::kind(&()).into_owned(),
            name: self.name(),
        }
    }

    fn metadata(&self, within: Option<&str>) -> ObjectMeta {
        ObjectMeta {
            name: Some(self.name()),
            namespace: within.map(str::to_owned),
            labels: Some(labels::recommended("ensemble", "ensemble", &self.component)),
            ..ObjectMeta::default()
        }
    }
}

fn subject(namespace: &str, account: &str) -> Subject {
    Subject {
        kind: "ServiceAccount".to_owned(),
        name: account.to_owned(),
        namespace: Some(namespace.to_owned()),
        api_group: None,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::rbac::LIST;

    #[test]
    fn binding_refers_to_the_role() {
        let grant = Grant::new("reader", vec![rule::<Pod>(LIST)]);
        let binding = grant.cluster_role_binding("system", "manager");
        assert_eq!(grant.cluster_role().metadata.name.as_deref(), Some("ensemble-reader"));
        assert_eq!((&*binding.role_ref.kind, &*binding.role_ref.name), ("ClusterRole", "ensemble-reader"));
        let (role, binding) =
            (grant.role(Some("shop")), grant.role_binding(Some("shop"), "system", "manager"));
        assert_eq!(role.metadata.namespace.as_deref(), Some("shop"));
        assert_eq!((&*binding.role_ref.kind, &*binding.role_ref.name), ("Role", "ensemble-reader"));
        let subjects = binding.subjects.unwrap();
        assert_eq!((subjects[0].namespace.as_deref(), &*subjects[0].name), (Some("system"), "manager"));
        assert_eq!(role.rules.unwrap().len(), 1);
    }
}
