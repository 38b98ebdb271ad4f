//! Namespaces that users see because of RoleBindings.

use std::collections::BTreeSet;

use capsule::{
    Tenant,
    api::v1beta2::TenantStatus,
    membership::tenant_references,
    owner_indexes::{Subject, key},
    owners::kind_and_name,
    subjects::Requester,
};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::ResourceExt;
use operator_core::{
    informer::{Change, Index, Informer, Subscription},
    kind::ObjectKey,
};

/// The RoleBindings of the cluster, by their subjects.
pub struct BoundNamespaces {
    bindings: Informer<RoleBinding>,
    tenants: Informer<Tenant>,
    by_subject: Index<RoleBinding, Subject>,
    _changes: Subscription,
}

impl BoundNamespaces {
    /// Creates the index of a cache. `record` gets the subjects of each binding that makes a namespace visible
    /// or hides it.
    pub fn new(
        bindings: Informer<RoleBinding>,
        tenants: Informer<Tenant>,
        record: impl Fn(Vec<Subject>) + Send + Sync + 'static,
    ) -> Self {
        let of_changes = tenants.clone();
        let changes = bindings.subscribe(move |change| {
            let changed = changed(change, &of_changes);
            if !changed.is_empty() {
                record(changed);
            }
        });
        let by_subject = bindings.store().index(subjects);
        Self { bindings, tenants, by_subject, _changes: changes }
    }

    /// Returns the cache.
    pub fn bindings(&self) -> &Informer<RoleBinding> {
        &self.bindings
    }

    /// Returns the namespaces with a binding for a user, but those of these Tenants: the user sees them anyway.
    pub fn of(&self, user: &Requester<'_>, tenants: &BTreeSet<String>) -> BTreeSet<String> {
        let found = user.subjects().flat_map(|subject| self.by_subject.get(&key(subject)));
        // A binding of a Tenant is there before the status of the Tenant has its namespace.
        let others =
            found.filter(|binding| !tenant_of(binding).is_some_and(|tenant| tenants.contains(tenant)));
        let mut namespaces: BTreeSet<_> = others.filter_map(|binding| binding.namespace()).collect();
        if !namespaces.is_empty() {
            for tenant in
                tenants.iter().filter_map(|name| self.tenants.store().get(&ObjectKey::cluster(name)))
            {
                for name in tenant.status.iter().flat_map(|TenantStatus { namespaces, .. }| namespaces) {
                    namespaces.remove(name);
                }
            }
        }
        namespaces
    }
}

/// Returns the subjects for whom a change of a binding shows or hides a namespace. The owners of a Tenant see its
/// namespaces without the bindings that the manager creates for them.
fn changed(change: &Change<RoleBinding>, tenants: &Informer<Tenant>) -> Vec<Subject> {
    let of = |binding: &Option<_>| binding.as_deref().map(subjects).unwrap_or_default();
    let (old, new) = (of(&change.old), of(&change.new));
    if old == new {
        return Vec::new();
    }
    let tenant = change.states().find_map(|binding| tenant_of(binding).map(ObjectKey::cluster));
    let tenant = tenant.and_then(|key| tenants.store().get(&key));
    let is_owner = |(kind, name): &Subject| {
        let mut owners = tenant.iter().flat_map(|tenant| &tenant.spec.owners);
        owners.any(|owner| owner.kind == *kind && owner.name == *name)
    };
    old.into_iter().chain(new).filter(|subject| !is_owner(subject)).collect()
}

/// Returns the name of the Tenant that a binding belongs to.
fn tenant_of(binding: &RoleBinding) -> Option<&str> {
    tenant_references(&binding.metadata).next().map(|owner| &*owner.name)
}

/// Returns the subjects of a binding, as owners of Tenants are named.
fn subjects(binding: &RoleBinding) -> Vec<Subject> {
    binding.subjects.iter().flatten().filter_map(kind_and_name).collect()
}

#[cfg(test)]
mod tests {
    use capsule::api::v1beta2::OwnerKind;
    use serde_json::json;

    use super::*;

    #[test]
    fn binding_has_subjects_and_a_tenant() {
        let binding: RoleBinding = serde_json::from_value(json!({
            "metadata": {"ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "Tenant", "name": "other", "uid": "1"},
                {"apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant", "name": "oil", "uid": "2"},
            ]},
            "roleRef": {"apiGroup": "", "kind": "ClusterRole", "name": "admin"},
            "subjects": [
                {"kind": "User", "name": "alice"}, {"kind": "Group", "name": "oil"},
                {"kind": "ServiceAccount", "namespace": "a", "name": "b"},
                {"kind": "ServiceAccount", "name": "c"},
            ],
        }))
        .unwrap();
        assert_eq!(tenant_of(&binding), Some("oil"));
        let expected = [
            (OwnerKind::User, "alice"),
            (OwnerKind::Group, "oil"),
            (OwnerKind::ServiceAccount, "system:serviceaccount:a:b"),
        ];
        assert_eq!(subjects(&binding), expected.map(|(kind, name)| (kind, name.to_owned())));
        assert_eq!(tenant_of(&RoleBinding::default()), None);
    }
}
