//! RoleBindings of a namespace.

use std::collections::BTreeMap;

use capsule::api::names::ROLE_BINDING_LABEL;
use k8s_openapi::api::rbac::v1::{RoleBinding, RoleRef, Subject};

use super::{Child, apply_meta, meta};
use crate::role_binding_name::{role_binding_hash, role_binding_name};

const GROUP: &str = "rbac.authorization.k8s.io";

/// ClusterRole that subjects get in each namespace of a Tenant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Binding {
    /// Name of the ClusterRole.
    pub cluster_role: String,
    /// Subjects as given. Their API groups are part of the name of the RoleBinding.
    pub subjects: Vec<Subject>,
    /// Labels for the RoleBinding, in addition to those of every child.
    pub labels: BTreeMap<String, String>,
    /// Annotations for the RoleBinding.
    pub annotations: BTreeMap<String, String>,
}

/// Returns the RoleBindings of a namespace. If two have the same name, the later one takes
/// precedence.
pub fn role_bindings(tenant: &str, namespace: &str, bindings: &[Binding]) -> Vec<RoleBinding> {
    let by_hash: BTreeMap<_, _> = bindings
        .iter()
        .map(|binding| (role_binding_hash(&binding.cluster_role, &binding.subjects), binding))
        .collect();
    by_hash.into_iter().map(|(hash, binding)| role_binding(tenant, namespace, hash, binding)).collect()
}

fn role_binding(tenant: &str, namespace: &str, hash: String, binding: &Binding) -> RoleBinding {
    let name = role_binding_name(&hash);
    let mut metadata = meta(tenant, namespace, "role-binding", name, (ROLE_BINDING_LABEL, hash));
    let managed = metadata.labels.take().unwrap_or_default();
    metadata.labels = Some(binding.labels.clone().into_iter().chain(managed).collect());
    metadata.annotations = (!binding.annotations.is_empty()).then(|| binding.annotations.clone());
    RoleBinding {
        metadata,
        role_ref: RoleRef {
            api_group: Some(GROUP.to_owned()),
            kind: "ClusterRole".to_owned(),
            name: binding.cluster_role.clone(),
        },
        subjects: Some(binding.subjects.iter().map(with_defaults).collect()),
    }
}

impl Child for RoleBinding {
    fn apply_to(&self, found: &mut Self) {
        apply_meta(&self.metadata, &mut found.metadata);
        // Sets the role of a new object. An existing object has the same role (see
        // `must_recreate`).
        found.role_ref.clone_from(&self.role_ref);
        let subjects =
            |binding: &Self| binding.subjects.iter().flatten().map(with_defaults).collect::<Vec<_>>();
        if subjects(self) != subjects(found) {
            found.subjects.clone_from(&self.subjects);
        }
    }

    /// The role of a RoleBinding is immutable.
    fn must_recreate(&self, found: &Self) -> bool {
        self.role_ref != found.role_ref
    }
}

/// Adds the API group that the API server defaults (`SetDefaults_Subject`).
fn with_defaults(subject: &Subject) -> Subject {
    let api_group = subject.api_group.clone().filter(|group| !group.is_empty());
    let default = (subject.kind != "ServiceAccount").then(|| GROUP.to_owned());
    let namespace = subject.namespace.clone().filter(|namespace| !namespace.is_empty());
    Subject { api_group: api_group.or(default), namespace, ..subject.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(kind: &str, name: &str) -> Subject {
        let namespace = (kind == "ServiceAccount").then(|| "default".to_owned());
        Subject { api_group: None, kind: kind.to_owned(), name: name.to_owned(), namespace }
    }

    fn binding(role: &str, subjects: Vec<Subject>) -> Binding {
        Binding { cluster_role: role.to_owned(), subjects, ..Binding::default() }
    }

    fn role_binding(binding: Binding) -> RoleBinding {
        role_bindings("oil", "oil-dev", &[binding]).pop().unwrap()
    }

    #[test]
    fn name_depends_on_the_subjects_as_given() {
        let alice = Subject { api_group: Some(GROUP.to_owned()), ..subject("User", "alice") };
        let with_group = role_binding(binding("admin", vec![alice]));
        assert_eq!(with_group.metadata.name.as_deref(), Some("capsule:managed:f93a4d3523f699fb"));
        assert_eq!(with_group.metadata.labels.as_ref().unwrap()[ROLE_BINDING_LABEL], "f93a4d3523f699fb");
        let without = role_binding(binding("admin", vec![subject("User", "alice")]));
        assert_ne!(without.metadata.name, with_group.metadata.name);
        assert_eq!(without.subjects, with_group.subjects, "the subjects are equivalent");
    }

    #[test]
    fn service_account_has_no_api_group() {
        let created = role_binding(binding("view", vec![subject("ServiceAccount", "deployer")]));
        let subject = &created.subjects.unwrap()[0];
        assert_eq!((subject.api_group.as_deref(), subject.namespace.as_deref()), (None, Some("default")));
        assert_eq!(created.role_ref.name, "view");
    }

    /// The API server defaults the namespace to that of the RoleBinding. The name contains the
    /// subject as given.
    #[test]
    fn service_account_without_namespace_stays_unchanged() {
        let account = || Subject { namespace: None, ..subject("ServiceAccount", "deployer") };
        let bound = role_binding(binding("view", vec![account()]));
        assert_eq!(bound.subjects, Some(vec![account()]));
        let empty =
            role_binding(binding("view", vec![Subject { namespace: Some(String::new()), ..account() }]));
        assert_eq!((&empty.metadata.name, &empty.subjects), (&bound.metadata.name, &bound.subjects));
        let mut found = bound.clone();
        bound.apply_to(&mut found);
        assert_eq!(found, bound);
        let elsewhere = role_bindings("oil", "oil-prod", &[binding("view", vec![account()])]).remove(0);
        assert_eq!((elsewhere.metadata.name, elsewhere.subjects), (bound.metadata.name, bound.subjects));
    }

    #[test]
    fn labels_of_a_binding_do_not_override_managed_labels() {
        let labels = BTreeMap::from([
            ("team".to_owned(), "a".to_owned()),
            ("projectcapsule.dev/tenant".to_owned(), "gas".to_owned()),
        ]);
        let annotations = BTreeMap::from([("note".to_owned(), "b".to_owned())]);
        let created =
            role_binding(Binding { labels, annotations, ..binding("view", vec![subject("User", "bob")]) });
        let labels = created.metadata.labels.unwrap();
        assert_eq!((labels["team"].as_str(), labels["projectcapsule.dev/tenant"].as_str()), ("a", "oil"));
        assert_eq!(created.metadata.annotations.unwrap()["note"], "b");
    }

    #[test]
    fn equal_bindings_become_one_role_binding() {
        let twice =
            [binding("view", vec![subject("User", "bob")]), binding("view", vec![subject("User", "bob")])];
        assert_eq!(role_bindings("oil", "oil-dev", &twice).len(), 1);
    }

    #[test]
    fn changed_subjects_are_repaired_and_a_changed_role_requires_recreation() {
        let desired = role_binding(binding("view", vec![subject("User", "bob")]));
        let mut found = desired.clone();
        found.subjects = Some(vec![subject("User", "mallory")]);
        assert!(!desired.must_recreate(&found));
        desired.apply_to(&mut found);
        assert_eq!(found, desired);
        found.role_ref.name = "cluster-admin".to_owned();
        assert!(desired.must_recreate(&found));
    }
}
