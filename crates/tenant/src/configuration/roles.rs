//! The cluster roles that let owners create and delete namespaces, as they are to be. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, RoleBinding, RoleRef, Subject,
};
use kube::{Resource, core::ObjectMeta};
use operator_core::{
    kind::Kind,
    labels,
    owner::{Owner, controller_of},
};
use serde::Serialize;

use crate::{
    api::{
        names::{CONFIGURATION_ANNOTATION, CREATED_BY_LABEL, DELETER_ROLE, PROVISIONER_ROLE},
        v1beta2::{CONFIGURATION_NAME, RbacConfiguration, Tenant, UserSpec},
    },
    owners::{OwnerError, kind_and_name, subject},
};

/// What the other implementation of the API writes into [`CREATED_BY_LABEL`] of its cluster roles.
const CREATED_BY: &str = "rbac-controller";

/// How these objects are known to be ours. They outlive a configuration that is deleted and made anew, so no owner
/// reference says it.
pub(super) fn mark() -> Owner {
    Owner::Annotation { key: CONFIGURATION_ANNOTATION, value: CONFIGURATION_NAME.to_owned() }
}

/// Whether a binding gives its subjects the role that lets owners create and patch namespaces: one of the configured
/// name or the default name, or one that is ours under a former name.
pub(crate) fn is_provisioner(binding: &ClusterRoleBinding, names: &RbacConfiguration) -> bool {
    let role = &binding.role_ref;
    let is_named = role.name == names.provisioner || role.name == PROVISIONER_ROLE;
    (role.kind == ClusterRole::kind(&()) && is_named) || mark().owns(&binding.metadata)
}

/// Whether a binding of a Tenant gives its subjects the role that lets owners delete the namespace because they own the
/// Tenant, or did so: the Tenant does not give it to them by an additional RoleBinding.
pub(crate) fn is_deleter(binding: &RoleBinding, tenant: &Tenant, names: &RbacConfiguration) -> bool {
    let role = &binding.role_ref;
    let is_named = role.name == names.deleter || role.name == DELETER_ROLE;
    let people: Vec<_> = binding.subjects.iter().flatten().filter_map(kind_and_name).collect();
    let is_additional = tenant.spec.additional_role_bindings.iter().any(|additional| {
        additional.cluster_role_name == role.name
            && additional.subjects.iter().filter_map(kind_and_name).eq(people.iter().cloned())
    });
    role.kind == ClusterRole::kind(&()) && is_named && !is_additional
}

/// Returns a binding without those who are not to be bound any more, if there are any.
pub(super) fn narrowed(
    wanted: &ClusterRoleBinding,
    found: &ClusterRoleBinding,
) -> Option<ClusterRoleBinding> {
    let people: BTreeSet<_> = wanted.subjects.iter().flatten().filter_map(kind_and_name).collect();
    let mut narrowed = found.clone();
    let subjects = narrowed.subjects.get_or_insert_default();
    let before = subjects.len();
    subjects.retain(|subject| kind_and_name(subject).is_some_and(|person| people.contains(&person)));
    (subjects.len() < before).then_some(narrowed)
}

/// What is to be there for one configuration.
#[derive(Debug)]
pub(super) struct Roles {
    /// Lets owners create namespaces, and change the metadata of their own.
    pub(super) provisioner: ClusterRole,
    /// Lets owners delete the namespaces in which they are bound to it.
    pub(super) deleter: ClusterRole,
    /// Gives the first to all users.
    pub(super) binding: ClusterRoleBinding,
}

/// What is to be there, and the users whose names do not say whom they mean.
pub(super) fn roles<'u>(
    names: &RbacConfiguration,
    users: impl IntoIterator<Item = &'u UserSpec>,
) -> (Roles, Vec<OwnerError>) {
    let (mut subjects, mut errors) = (Vec::new(), Vec::new());
    for user in users {
        match subject(user.kind, &user.name) {
            Ok(subject) if !subjects.contains(&subject) => subjects.push(subject),
            Ok(_) => {}
            Err(error) => errors.push(error),
        }
    }
    let roles = Roles {
        provisioner: role(&names.provisioner, "namespace-provisioner", &["create", "patch"]),
        deleter: role(&names.deleter, "namespace-deleter", &["delete"]),
        binding: ClusterRoleBinding {
            metadata: metadata(&names.provisioner, "namespace-provisioner"),
            role_ref: RoleRef {
                api_group: Some(ClusterRole::group(&()).into_owned()),
                kind: ClusterRole::kind(&()).into_owned(),
                name: names.provisioner.clone(),
            },
            subjects: (!subjects.is_empty()).then_some(subjects),
        },
    };
    (roles, errors)
}

fn role(name: &str, component: &str, verbs: &[&str]) -> ClusterRole {
    let rule = PolicyRule {
        api_groups: Some(vec![String::new()]),
        resources: Some(vec!["namespaces".to_owned()]),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    };
    ClusterRole { metadata: metadata(name, component), rules: Some(vec![rule]), aggregation_rule: None }
}

fn metadata(name: &str, component: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(labels::recommended("capsuleconfiguration", CONFIGURATION_NAME, component)),
        ..ObjectMeta::default()
    }
}

/// A kind that grants rights in the whole cluster. `self` is the object as it is to be.
pub(super) trait Grant: Kind + Serialize + PartialEq + Default {
    /// Makes `found` grant what it is to grant. Labels and annotations of others stay.
    fn settle(&self, found: &mut Self);

    /// Whether `found` grants exactly that already.
    fn grants_the_same(&self, found: &Self) -> bool;

    /// Whether the API server would refuse the change from `found`, so that it must be deleted and made anew.
    fn must_replace(&self, _found: &Self) -> bool {
        false
    }

    /// Whether an object of this name that is not ours may become ours: one that the other implementation of the API has
    /// made, or that is as ours would be. Nothing else, whatever its name.
    fn may_take_over(&self, found: &Self) -> bool {
        let labels = found.meta().labels.as_ref();
        let is_theirs =
            labels.and_then(|labels| labels.get(CREATED_BY_LABEL)).is_some_and(|by| by == CREATED_BY);
        controller_of(found.meta()).is_none() && (is_theirs || self.grants_the_same(found))
    }
}

impl Grant for ClusterRole {
    fn settle(&self, found: &mut Self) {
        add_labels(&self.metadata, &mut found.metadata);
        if !self.grants_the_same(found) {
            found.rules.clone_from(&self.rules);
            found.aggregation_rule = None;
        }
    }

    fn grants_the_same(&self, found: &Self) -> bool {
        self.rules == found.rules && found.aggregation_rule.is_none()
    }
}

impl Grant for ClusterRoleBinding {
    fn settle(&self, found: &mut Self) {
        add_labels(&self.metadata, &mut found.metadata);
        // Of one that is there this changes nothing (see `must_replace`); one that is being made has none yet.
        found.role_ref.clone_from(&self.role_ref);
        if !self.grants_the_same(found) {
            found.subjects.clone_from(&self.subjects);
        }
    }

    fn grants_the_same(&self, found: &Self) -> bool {
        self.role_ref == found.role_ref && people(self) == people(found)
    }

    fn must_replace(&self, found: &Self) -> bool {
        self.role_ref != found.role_ref
    }
}

/// Who is bound, in whatever order.
fn people(binding: &ClusterRoleBinding) -> BTreeMap<String, Subject> {
    let people = binding.subjects.iter().flatten();
    people.map(|subject| (format!("{subject:?}"), subject.clone())).collect()
}

fn add_labels(wanted: &ObjectMeta, found: &mut ObjectMeta) {
    labels::add(&mut found.labels, wanted.labels.clone().unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json, to_value};

    use super::*;
    use crate::api::v1beta2::OwnerKind;

    fn wanted(users: Value) -> Roles {
        let users: Vec<UserSpec> = serde_json::from_value(users).unwrap();
        let (roles, errors) = roles(&RbacConfiguration::default(), &users);
        assert!(errors.is_empty(), "{errors:?}");
        roles
    }

    #[test]
    fn the_roles_are_those_of_the_contract() {
        let roles = wanted(json!([]));
        let granted = |role: &ClusterRole| to_value(&role.rules).unwrap();
        let rule = |verbs: Value| json!([{ "apiGroups": [""], "resources": ["namespaces"], "verbs": verbs }]);
        assert_eq!(granted(&roles.provisioner), rule(json!(["create", "patch"])));
        assert_eq!(granted(&roles.deleter), rule(json!(["delete"])));
        let names = [&roles.provisioner.metadata, &roles.deleter.metadata, &roles.binding.metadata];
        assert_eq!(
            names.map(|metadata| metadata.name.as_deref().unwrap()),
            ["capsule-namespace-provisioner", "capsule-namespace-deleter", "capsule-namespace-provisioner"]
        );
        assert_eq!(roles.binding.role_ref.name, "capsule-namespace-provisioner");
    }

    #[test]
    fn all_users_are_bound_each_once_and_a_malformed_name_keeps_nobody_out() {
        let users: Vec<UserSpec> = serde_json::from_value(json!([
            { "kind": "User", "name": "alice" },
            { "kind": "ServiceAccount", "name": "nobody" },
            { "kind": "ServiceAccount", "name": "system:serviceaccount:solar:owner" },
            { "kind": "User", "name": "alice" },
        ]))
        .unwrap();
        let (roles, errors) = roles(&RbacConfiguration::default(), &users);
        let expected = json!([
            { "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice" },
            { "kind": "ServiceAccount", "name": "owner", "namespace": "solar" },
        ]);
        assert_eq!(to_value(roles.binding.subjects).unwrap(), expected);
        assert_eq!(errors.len(), 1);
    }

    #[test]
    fn a_binding_to_the_role_of_owners_is_known_by_its_role_or_its_mark() {
        let names: RbacConfiguration = serde_json::from_value(json!({ "provisioner": "ours" })).unwrap();
        let binding = |role: &str, kind: &str, annotations: Value| -> ClusterRoleBinding {
            serde_json::from_value(json!({
                "metadata": { "name": "any", "annotations": annotations },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role },
            }))
            .unwrap()
        };
        let mark = json!({ CONFIGURATION_ANNOTATION: CONFIGURATION_NAME });
        for (binding, is_one) in [
            (binding("ours", "ClusterRole", json!({})), true),
            (binding("capsule-namespace-provisioner", "ClusterRole", json!({})), true),
            (binding("former", "ClusterRole", mark), true),
            (binding("former", "ClusterRole", json!({})), false),
            (binding("cluster-admin", "ClusterRole", json!({})), false),
        ] {
            assert_eq!(is_provisioner(&binding, &names), is_one, "{binding:?}");
        }
    }

    #[test]
    fn a_binding_to_the_deleter_is_an_owners_unless_the_tenant_gives_it_additionally() {
        let names = RbacConfiguration::default();
        let bob = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob" });
        let binding = |role: &str| -> RoleBinding {
            serde_json::from_value(json!({
                "metadata": { "name": "any" }, "subjects": [bob],
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
            }))
            .unwrap()
        };
        let tenant = |role: &str, name: &str| -> Tenant {
            let subject = json!({ "kind": "User", "name": name });
            let additional = json!([{ "clusterRoleName": role, "subjects": [subject] }]);
            let spec = json!({ "additionalRoleBindings": additional });
            serde_json::from_value(json!({ "metadata": { "name": "oil" }, "spec": spec })).unwrap()
        };
        assert!(is_deleter(&binding(DELETER_ROLE), &tenant("view", "bob"), &names));
        assert!(is_deleter(&binding(DELETER_ROLE), &tenant(DELETER_ROLE, "carol"), &names));
        assert!(!is_deleter(&binding(DELETER_ROLE), &tenant(DELETER_ROLE, "bob"), &names));
        assert!(!is_deleter(&binding("admin"), &tenant("view", "bob"), &names));
    }

    #[test]
    fn a_binding_is_narrowed_to_those_who_are_wanted_and_gets_nobody_new() {
        let (alice, bob, carol) = (
            json!({ "kind": "User", "name": "alice" }),
            json!({ "kind": "User", "name": "bob" }),
            json!({ "kind": "Group", "name": "alice" }),
        );
        let found = wanted(json!([alice, bob])).binding;
        let next = wanted(json!([alice, carol])).binding;
        let narrowed_to = |found: &ClusterRoleBinding| {
            narrowed(&next, found)
                .map(|one| one.subjects.iter().flatten().filter_map(kind_and_name).collect())
        };
        assert_eq!(narrowed_to(&found), Some(vec![(OwnerKind::User, "alice".to_owned())]));
        assert_eq!(narrowed_to(&wanted(json!([alice])).binding), None);
        let nobody = wanted(json!([])).binding;
        assert_eq!(narrowed(&nobody, &found).unwrap().subjects, Some(Vec::new()));
    }

    #[test]
    fn the_order_of_the_people_is_no_difference() {
        let (alice, bob) =
            (json!({ "kind": "User", "name": "alice" }), json!({ "kind": "User", "name": "bob" }));
        let roles = wanted(json!([alice, bob]));
        let other = wanted(json!([bob, alice]));
        let mut found = other.binding.clone();
        roles.binding.settle(&mut found);
        assert_eq!(found, other.binding);
        let mut found = wanted(json!([alice])).binding;
        roles.binding.settle(&mut found);
        assert_eq!(found.subjects, roles.binding.subjects);
    }

    #[test]
    fn what_was_made_elsewhere_is_taken_over_if_it_is_theirs_or_the_same() {
        let wanted = wanted(json!([])).provisioner;
        let mut found = ClusterRole { metadata: ObjectMeta::default(), ..wanted.clone() };
        assert!(wanted.may_take_over(&found), "it grants the same");
        found.rules = Some(Vec::new());
        assert!(!wanted.may_take_over(&found), "it is a stranger's");
        labels::add(
            &mut found.metadata.labels,
            [(CREATED_BY_LABEL.to_owned(), CREATED_BY.to_owned())].into(),
        );
        assert!(wanted.may_take_over(&found), "the other implementation made it");
        let mut repaired = found.clone();
        wanted.settle(&mut repaired);
        assert_eq!(repaired.rules, wanted.rules);
        assert_eq!(repaired.metadata.labels.as_ref().unwrap()[CREATED_BY_LABEL], CREATED_BY, "it stays");
        let owner =
            json!([{ "apiVersion": "v1", "kind": "Other", "name": "o", "uid": "1", "controller": true }]);
        found.metadata.owner_references = serde_json::from_value(owner).unwrap();
        assert!(!wanted.may_take_over(&found), "another controller keeps it");
    }

    #[test]
    fn rules_that_are_aggregated_from_elsewhere_are_put_right() {
        let wanted = wanted(json!([])).deleter;
        let mut found = wanted.clone();
        found.aggregation_rule = Some(k8s_openapi::api::rbac::v1::AggregationRule::default());
        wanted.settle(&mut found);
        assert_eq!(found, wanted);
    }
}
