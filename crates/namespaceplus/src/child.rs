//! Updates an existing object in the namespace to its desired state. Pure functions.

use k8s_openapi::api::{
    core::v1::{LimitRange, ResourceQuota},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
    rbac::v1::RoleBinding,
};
use operator_core::{kind::Kind, labels};
use serde::Serialize;

use crate::defaulting;

/// A kind of object that a NamespacePlus manages in its namespace.
pub(crate) trait Child: Kind + Serialize + PartialEq + Default {
    /// Writes the managed fields of `self`, the desired object, into an existing object.
    fn apply_spec(&self, present: &mut Self);

    /// Returns whether the existing object must be deleted and recreated, because a field is
    /// immutable.
    fn must_replace(&self, _present: &Self) -> bool {
        false
    }

    /// Calls [`apply_spec`](Self::apply_spec) and adds the labels.
    fn apply_to(&self, present: &mut Self) {
        labels::add(&mut present.meta_mut().labels, self.meta().labels.clone().unwrap_or_default());
        self.apply_spec(present);
    }
}

impl Child for ResourceQuota {
    fn apply_spec(&self, present: &mut Self) {
        let hard = |quota: &Self| quota.spec.as_ref().and_then(|spec| spec.hard.clone()).unwrap_or_default();
        if defaulting::canonical(&hard(present)) != hard(self) {
            present.spec.get_or_insert_default().hard = Some(hard(self));
        }
    }
}

impl Child for LimitRange {
    fn apply_spec(&self, present: &mut Self) {
        let limits = |range: &Self| range.spec.clone().map(|spec| spec.limits).unwrap_or_default();
        let current: Vec<_> = limits(present).into_iter().map(defaulting::limit).collect();
        if current != limits(self) {
            present.spec.clone_from(&self.spec);
        }
    }
}

impl Child for NetworkPolicy {
    fn apply_spec(&self, present: &mut Self) {
        present.spec.clone_from(&self.spec);
    }
}

impl Child for PodDisruptionBudget {
    fn apply_spec(&self, present: &mut Self) {
        present.spec.clone_from(&self.spec);
    }
}

impl Child for RoleBinding {
    fn apply_spec(&self, present: &mut Self) {
        present.role_ref.clone_from(&self.role_ref);
        present.subjects.clone_from(&self.subjects);
    }

    /// The role of a RoleBinding is immutable.
    fn must_replace(&self, present: &Self) -> bool {
        self.role_ref != present.role_ref
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{build, testing::object};

    #[test]
    fn equal_quantities_cause_no_update() {
        let declared = build::quotas(&object(json!({"quota": {"memory": "1Gi"}}))).objects.remove(0);
        let mut present = declared.clone();
        let hard = present.spec.as_mut().unwrap().hard.as_mut().unwrap();
        hard.get_mut("memory").unwrap().0 = "1024Mi".into();
        let before = present.clone();
        declared.apply_to(&mut present);
        assert_eq!(present, before);
    }

    #[test]
    fn keeps_foreign_labels() {
        let declared = build::quotas(&object(json!({}))).objects.remove(0);
        let mut present = ResourceQuota::default();
        present.metadata.labels = Some([("theirs".to_owned(), "x".to_owned())].into());
        declared.apply_to(&mut present);
        assert_eq!(present.spec, declared.spec);
        assert_eq!(present.metadata.labels.as_ref().unwrap()["theirs"], "x");
        assert_eq!(present.metadata.labels.as_ref().unwrap()[labels::MANAGED_BY], labels::MANAGER);
    }

    #[test]
    fn only_another_role_recreates_binding() {
        let binding = |role: &str, user: &str| {
            let spec = json!({"roleBindings": [
                {"name": "a", "clusterRole": role, "subjects": [{"kind": "User", "name": user}]}]});
            build::bindings(&object(spec)).objects.remove(0)
        };
        assert!(binding("edit", "ada").must_replace(&binding("view", "ada")));
        assert!(!binding("edit", "ada").must_replace(&binding("edit", "bob")));
    }
}
