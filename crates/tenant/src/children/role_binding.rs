//! RoleBindings.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{RoleBinding, RoleRef, Subject};

use super::{Child, meta, settle_meta};
use crate::{
    api::names::ROLE_BINDING_LABEL,
    hash::{role_binding_hash, role_binding_name},
};

const GROUP: &str = "rbac.authorization.k8s.io";

/// A cluster role that somebody gets in each namespace of a Tenant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Binding {
    /// The cluster role.
    pub cluster_role: String,
    /// Who gets it. The API groups count for the name of the RoleBinding, so they stay as they are given.
    pub subjects: Vec<Subject>,
    /// Labels for the RoleBinding, in addition to those that every child has.
    pub labels: BTreeMap<String, String>,
    /// Annotations for the RoleBinding.
    pub annotations: BTreeMap<String, String>,
}

/// The RoleBindings of a namespace. Of two that would have the same name, the later one counts.
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
    let ours = metadata.labels.take().unwrap_or_default();
    metadata.labels = Some(binding.labels.clone().into_iter().chain(ours).collect());
    metadata.annotations = (!binding.annotations.is_empty()).then(|| binding.annotations.clone());
    RoleBinding {
        metadata,
        role_ref: RoleRef {
            api_group: Some(GROUP.to_owned()),
            kind: "ClusterRole".to_owned(),
            name: binding.cluster_role.clone(),
        },
        subjects: Some(binding.subjects.iter().map(served).collect()),
    }
}

impl Child for RoleBinding {
    const KEY: &'static str = ROLE_BINDING_LABEL;

    fn settle(&self, found: &mut Self) {
        settle_meta(&self.metadata, &mut found.metadata);
        // Of one that is there this changes nothing (see `must_replace`); one that is being made has none
        // yet.
        found.role_ref.clone_from(&self.role_ref);
        let subjects = |binding: &Self| binding.subjects.iter().flatten().map(served).collect::<Vec<_>>();
        if subjects(self) != subjects(found) {
            found.subjects.clone_from(&self.subjects);
        }
    }

    /// The role of a RoleBinding cannot be changed.
    fn must_replace(&self, found: &Self) -> bool {
        self.role_ref != found.role_ref
    }
}

/// The subject with its API group, as `SetDefaults_Subject` of the API server fills it in.
fn served(subject: &Subject) -> Subject {
    let given = subject.api_group.clone().filter(|group| !group.is_empty());
    let default = (subject.kind != "ServiceAccount").then(|| GROUP.to_owned());
    let namespace = subject.namespace.clone().filter(|namespace| !namespace.is_empty());
    Subject { api_group: given.or(default), namespace, ..subject.clone() }
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

    fn made(binding: Binding) -> RoleBinding {
        role_bindings("oil", "oil-dev", &[binding]).pop().unwrap()
    }

    #[test]
    fn the_name_follows_from_the_subjects_as_they_are_given() {
        let alice = Subject { api_group: Some(GROUP.to_owned()), ..subject("User", "alice") };
        let with_group = made(binding("admin", vec![alice]));
        assert_eq!(with_group.metadata.name.as_deref(), Some("capsule:managed:f93a4d3523f699fb"));
        assert_eq!(with_group.metadata.labels.as_ref().unwrap()[ROLE_BINDING_LABEL], "f93a4d3523f699fb");
        let without = made(binding("admin", vec![subject("User", "alice")]));
        assert_ne!(without.metadata.name, with_group.metadata.name);
        assert_eq!(without.subjects, with_group.subjects, "both say the same");
    }

    #[test]
    fn a_service_account_has_no_api_group() {
        let made = made(binding("view", vec![subject("ServiceAccount", "deployer")]));
        let subject = &made.subjects.unwrap()[0];
        assert_eq!((subject.api_group.as_deref(), subject.namespace.as_deref()), (None, Some("default")));
        assert_eq!(made.role_ref.name, "view");
    }

    /// The API server takes it for the one in the namespace of the RoleBinding. It is part of the name as it is given.
    #[test]
    fn a_service_account_without_a_namespace_stays_so() {
        let account = || Subject { namespace: None, ..subject("ServiceAccount", "deployer") };
        let bound = made(binding("view", vec![account()]));
        assert_eq!(bound.subjects, Some(vec![account()]));
        let empty = made(binding("view", vec![Subject { namespace: Some(String::new()), ..account() }]));
        assert_eq!((&empty.metadata.name, &empty.subjects), (&bound.metadata.name, &bound.subjects));
        let mut found = bound.clone();
        bound.settle(&mut found);
        assert_eq!(found, bound);
        let elsewhere = role_bindings("oil", "oil-prod", &[binding("view", vec![account()])]).remove(0);
        assert_eq!((elsewhere.metadata.name, elsewhere.subjects), (bound.metadata.name, bound.subjects));
    }

    #[test]
    fn labels_of_the_binding_do_not_replace_ours() {
        let labels = BTreeMap::from([
            ("team".to_owned(), "a".to_owned()),
            ("projectcapsule.dev/tenant".to_owned(), "gas".to_owned()),
        ]);
        let annotations = BTreeMap::from([("note".to_owned(), "b".to_owned())]);
        let made = made(Binding { labels, annotations, ..binding("view", vec![subject("User", "bob")]) });
        let labels = made.metadata.labels.unwrap();
        assert_eq!((labels["team"].as_str(), labels["projectcapsule.dev/tenant"].as_str()), ("a", "oil"));
        assert_eq!(made.metadata.annotations.unwrap()["note"], "b");
    }

    #[test]
    fn the_same_role_for_the_same_people_is_one_binding() {
        let twice =
            [binding("view", vec![subject("User", "bob")]), binding("view", vec![subject("User", "bob")])];
        assert_eq!(role_bindings("oil", "oil-dev", &twice).len(), 1);
    }

    #[test]
    fn other_subjects_are_repaired_and_another_role_needs_a_new_object() {
        let wanted = made(binding("view", vec![subject("User", "bob")]));
        let mut found = wanted.clone();
        found.subjects = Some(vec![subject("User", "mallory")]);
        assert!(!wanted.must_replace(&found));
        wanted.settle(&mut found);
        assert_eq!(found, wanted);
        found.role_ref.name = "cluster-admin".to_owned();
        assert!(wanted.must_replace(&found));
    }
}
