//! Desired ClusterRoles that let owners create and delete namespaces. Pure.

use std::collections::{BTreeMap, BTreeSet};

use capsule::{
    api::{
        names::{CONFIGURATION_ANNOTATION, CREATED_BY_LABEL, DELETER_ROLE, PROVISIONER_ROLE},
        v1beta2::{CONFIGURATION_NAME, RbacConfiguration, Tenant, UserSpec},
    },
    owners::{OwnerError, kind_and_name, subject},
};
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

/// Value of [`CREATED_BY_LABEL`] on the ClusterRoles of Capsule.
const CREATED_BY: &str = "rbac-controller";

/// Returns the annotation that marks managed objects. They survive the deletion of the
/// configuration, so they have no owner reference.
pub(super) fn ownership_mark() -> Owner {
    Owner::Annotation { key: CONFIGURATION_ANNOTATION, value: CONFIGURATION_NAME.to_owned() }
}

/// Returns whether a binding grants the role that lets owners create and patch namespaces: a role
/// with the configured or the default name, or any role if the controller manages the binding.
pub(crate) fn is_provisioner(binding: &ClusterRoleBinding, names: &RbacConfiguration) -> bool {
    let role = &binding.role_ref;
    let is_named = role.name == names.provisioner || role.name == PROVISIONER_ROLE;
    (role.kind == ClusterRole::kind(&()) && is_named) || ownership_mark().owns(&binding.metadata)
}

/// Returns whether a binding of a Tenant grants the role that lets owners delete the namespace,
/// because the subjects own the Tenant or did so before. Additional RoleBindings of the Tenant do
/// not count.
pub(crate) fn is_deleter(binding: &RoleBinding, tenant: &Tenant, names: &RbacConfiguration) -> bool {
    let role = &binding.role_ref;
    let is_named = role.name == names.deleter || role.name == DELETER_ROLE;
    let subjects: Vec<_> = binding.subjects.iter().flatten().filter_map(kind_and_name).collect();
    let is_additional = tenant.spec.additional_role_bindings.iter().any(|additional| {
        additional.cluster_role_name == role.name
            && additional.subjects.iter().filter_map(kind_and_name).eq(subjects.iter().cloned())
    });
    role.kind == ClusterRole::kind(&()) && is_named && !is_additional
}

/// Returns the binding without subjects that are no longer desired, or `None` if it has no such
/// subjects.
pub(super) fn without_extra_subjects(
    desired: &ClusterRoleBinding,
    found: &ClusterRoleBinding,
) -> Option<ClusterRoleBinding> {
    let desired: BTreeSet<_> = desired.subjects.iter().flatten().filter_map(kind_and_name).collect();
    let mut updated = found.clone();
    let subjects = updated.subjects.get_or_insert_default();
    let before = subjects.len();
    subjects.retain(|subject| kind_and_name(subject).is_some_and(|subject| desired.contains(&subject)));
    (subjects.len() < before).then_some(updated)
}

/// Desired RBAC objects of a configuration.
#[derive(Debug)]
pub(super) struct Roles {
    /// Lets owners create namespaces, and patch the metadata of their own namespaces.
    pub(super) provisioner: ClusterRole,
    /// Lets owners delete the namespaces in which they are bound to it.
    pub(super) deleter: ClusterRole,
    /// Binds all users to `provisioner`.
    pub(super) binding: ClusterRoleBinding,
}

/// Returns the desired objects, and the errors of users with invalid names.
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

/// Kind of object that grants cluster-wide permissions. `self` is the desired object.
pub(super) trait RbacObject: Kind + Serialize + PartialEq + Default {
    /// Changes `found` so that it grants the same permissions. Other labels and annotations stay.
    fn apply_to(&self, found: &mut Self);

    /// Returns whether `found` grants the same permissions.
    fn grants_the_same(&self, found: &Self) -> bool;

    /// Returns whether the API server would reject the update of `found`, so that it must be
    /// recreated.
    fn must_recreate(&self, _found: &Self) -> bool {
        false
    }

    /// Returns whether an unmanaged object of this name may be adopted.
    ///
    /// An object of Capsule may be adopted, or one that grants the same permissions and has no
    /// controller.
    fn may_adopt(&self, found: &Self) -> bool {
        let labels = found.meta().labels.as_ref();
        let is_of_capsule =
            labels.and_then(|labels| labels.get(CREATED_BY_LABEL)).is_some_and(|by| by == CREATED_BY);
        controller_of(found.meta()).is_none() && (is_of_capsule || self.grants_the_same(found))
    }
}

impl RbacObject for ClusterRole {
    fn apply_to(&self, found: &mut Self) {
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

impl RbacObject for ClusterRoleBinding {
    fn apply_to(&self, found: &mut Self) {
        add_labels(&self.metadata, &mut found.metadata);
        // Sets the role of a new object. An existing object has the same role (see
        // `must_recreate`).
        found.role_ref.clone_from(&self.role_ref);
        if !self.grants_the_same(found) {
            found.subjects.clone_from(&self.subjects);
        }
    }

    fn grants_the_same(&self, found: &Self) -> bool {
        self.role_ref == found.role_ref && subjects(self) == subjects(found)
    }

    fn must_recreate(&self, found: &Self) -> bool {
        self.role_ref != found.role_ref
    }
}

/// Returns the subjects of a binding in an order that does not depend on the binding.
fn subjects(binding: &ClusterRoleBinding) -> BTreeMap<String, Subject> {
    let subjects = binding.subjects.iter().flatten();
    subjects.map(|subject| (format!("{subject:?}"), subject.clone())).collect()
}

fn add_labels(desired: &ObjectMeta, found: &mut ObjectMeta) {
    labels::add(&mut found.labels, desired.labels.clone().unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json, to_value};

    use super::*;
    use capsule::api::v1beta2::OwnerKind;

    fn desired(users: Value) -> Roles {
        let users: Vec<UserSpec> = serde_json::from_value(users).unwrap();
        let (roles, errors) = roles(&RbacConfiguration::default(), &users);
        assert!(errors.is_empty(), "{errors:?}");
        roles
    }

    #[test]
    fn roles_have_names_and_rules_of_capsule() {
        let roles = desired(json!([]));
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
    fn every_user_is_bound_once_and_invalid_names_are_skipped() {
        let users: Vec<UserSpec> = serde_json::from_value(json!([
            { "kind": "User", "name": "alice" },
            { "kind": "ServiceAccount", "name": "invalid" },
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
    fn provisioner_binding_is_identified_by_role_or_ownership_mark() {
        let names: RbacConfiguration = serde_json::from_value(json!({ "provisioner": "custom" })).unwrap();
        let binding = |role: &str, kind: &str, annotations: Value| -> ClusterRoleBinding {
            serde_json::from_value(json!({
                "metadata": { "name": "any", "annotations": annotations },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role },
            }))
            .unwrap()
        };
        let mark = json!({ CONFIGURATION_ANNOTATION: CONFIGURATION_NAME });
        for (binding, is_provisioner_binding) in [
            (binding("custom", "ClusterRole", json!({})), true),
            (binding("capsule-namespace-provisioner", "ClusterRole", json!({})), true),
            (binding("former", "ClusterRole", mark), true),
            (binding("former", "ClusterRole", json!({})), false),
            (binding("cluster-admin", "ClusterRole", json!({})), false),
        ] {
            assert_eq!(is_provisioner(&binding, &names), is_provisioner_binding, "{binding:?}");
        }
    }

    #[test]
    fn deleter_binding_is_an_owners_unless_the_tenant_adds_it() {
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
    fn extra_subjects_are_removed_and_none_are_added() {
        let (alice, bob, carol) = (
            json!({ "kind": "User", "name": "alice" }),
            json!({ "kind": "User", "name": "bob" }),
            json!({ "kind": "Group", "name": "alice" }),
        );
        let found = desired(json!([alice, bob])).binding;
        let next = desired(json!([alice, carol])).binding;
        let remaining = |found: &ClusterRoleBinding| {
            without_extra_subjects(&next, found)
                .map(|one| one.subjects.iter().flatten().filter_map(kind_and_name).collect())
        };
        assert_eq!(remaining(&found), Some(vec![(OwnerKind::User, "alice".to_owned())]));
        assert_eq!(remaining(&desired(json!([alice])).binding), None);
        let empty = desired(json!([])).binding;
        assert_eq!(without_extra_subjects(&empty, &found).unwrap().subjects, Some(Vec::new()));
    }

    #[test]
    fn order_of_subjects_is_no_difference() {
        let (alice, bob) =
            (json!({ "kind": "User", "name": "alice" }), json!({ "kind": "User", "name": "bob" }));
        let roles = desired(json!([alice, bob]));
        let other = desired(json!([bob, alice]));
        let mut found = other.binding.clone();
        roles.binding.apply_to(&mut found);
        assert_eq!(found, other.binding);
        let mut found = desired(json!([alice])).binding;
        roles.binding.apply_to(&mut found);
        assert_eq!(found.subjects, roles.binding.subjects);
    }

    #[test]
    fn unmanaged_role_is_adopted_if_it_is_capsules_or_grants_the_same() {
        let desired = desired(json!([])).provisioner;
        let mut found = ClusterRole { metadata: ObjectMeta::default(), ..desired.clone() };
        assert!(desired.may_adopt(&found), "it grants the same");
        found.rules = Some(Vec::new());
        assert!(!desired.may_adopt(&found), "it grants something else");
        labels::add(
            &mut found.metadata.labels,
            [(CREATED_BY_LABEL.to_owned(), CREATED_BY.to_owned())].into(),
        );
        assert!(desired.may_adopt(&found), "Capsule created it");
        let mut repaired = found.clone();
        desired.apply_to(&mut repaired);
        assert_eq!(repaired.rules, desired.rules);
        assert_eq!(repaired.metadata.labels.as_ref().unwrap()[CREATED_BY_LABEL], CREATED_BY, "it stays");
        let owner =
            json!([{ "apiVersion": "v1", "kind": "Other", "name": "o", "uid": "1", "controller": true }]);
        found.metadata.owner_references = serde_json::from_value(owner).unwrap();
        assert!(!desired.may_adopt(&found), "it has another controller");
    }

    #[test]
    fn aggregation_rule_is_removed() {
        let desired = desired(json!([])).deleter;
        let mut found = desired.clone();
        found.aggregation_rule = Some(k8s_openapi::api::rbac::v1::AggregationRule::default());
        desired.apply_to(&mut found);
        assert_eq!(found, desired);
    }
}
