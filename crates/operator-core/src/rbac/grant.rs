//! Rules, given to a ServiceAccount.

use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use kube::{Resource, core::ObjectMeta};

use super::{CREATE, PATCH, Rule, rule};
use crate::{controller::Registration, labels};

/// The rights of one part of the manager: the role `ensemble-<part>` and its binding, for the whole cluster or for
/// one namespace.
#[derive(Clone, Debug)]
pub struct Grant {
    part: String,
    rules: Vec<Rule>,
}

impl Grant {
    /// The rights of a part: a controller, or something of the process like `leader-election`.
    pub fn new(part: &str, rules: Vec<Rule>) -> Self {
        Self { part: part.to_owned(), rules }
    }

    /// The rights of a controller: its own rules, and that it may publish Events.
    pub fn of(controller: &Registration) -> Self {
        let mut rules = (controller.rules)();
        rules.push(rule::<k8s_openapi::api::events::v1::Event>(CREATE | PATCH));
        Self::new(controller.name, rules)
    }

    /// What is granted.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The name of the role and of its binding.
    pub fn name(&self) -> String {
        format!("ensemble-{}", self.part)
    }

    /// The rights in all namespaces, and on cluster-scoped objects.
    pub fn cluster_role(&self) -> ClusterRole {
        ClusterRole { metadata: self.metadata(None), rules: Some(self.policies()), aggregation_rule: None }
    }

    /// Gives [`Grant::cluster_role`] to the ServiceAccount `account` of `namespace`.
    pub fn cluster_role_binding(&self, namespace: &str, account: &str) -> ClusterRoleBinding {
        ClusterRoleBinding {
            metadata: self.metadata(None),
            role_ref: self.reference::<ClusterRole>(),
            subjects: Some(vec![subject(namespace, account)]),
        }
    }

    /// The rights in one namespace; in the one that the role is applied to, if none is named.
    pub fn role(&self, within: Option<&str>) -> Role {
        Role { metadata: self.metadata(within), rules: Some(self.policies()) }
    }

    /// Gives [`Grant::role`] to the ServiceAccount `account` of `namespace`.
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
            labels: Some(labels::recommended("ensemble", "ensemble", &self.part)),
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
    fn a_role_and_its_binding_belong_together_in_the_cluster_and_in_a_namespace() {
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
