//! Owners of a Tenant. Pure.

use k8s_openapi::api::rbac::v1::Subject;
use kube::{
    ResourceExt,
    core::{ParseExpressionError, Selector, SelectorExt},
};
use operator_core::informer::Change;

use crate::api::{
    names::OBJECT_TENANT_LABEL,
    v1beta2::{OwnerKind, OwnerStatus, Tenant, TenantOwner},
};

/// Error in an owner, who gets no permissions.
#[derive(Debug, thiserror::Error)]
pub enum OwnerError {
    /// The name is not that of a ServiceAccount.
    #[error(
        "the owner \"{0}\" gets no rights: the name of a ServiceAccount must have the form \
         system:serviceaccount:<namespace>:<name>"
    )]
    Name(String),
    /// A selector is invalid.
    #[error("spec.permissions.matchOwners[{index}] cannot be used and selects no TenantOwner")]
    Selector {
        /// Index of the entry.
        index: usize,
        /// Error in the selector.
        source: ParseExpressionError,
    },
}

/// Selectors for the `TenantOwner`s of a Tenant.
///
/// A `TenantOwner` matches by the label `projectcapsule.dev/tenant` with the name of the Tenant, or
/// by any selector in `spec.permissions.matchOwners`.
#[derive(Debug)]
pub struct OwnerSelectors {
    tenant: String,
    selectors: Vec<Selector>,
    errors: Vec<OwnerError>,
}

impl OwnerSelectors {
    /// Returns the selectors of a Tenant.
    pub fn of(tenant: &Tenant) -> Self {
        let (mut selectors, mut errors) = (Vec::new(), Vec::new());
        let spec = tenant.spec.permissions.iter().flat_map(|permissions| &permissions.match_owners);
        for (index, selector) in spec.enumerate() {
            match Selector::try_from(selector.clone()) {
                Ok(selector) => selectors.push(selector),
                Err(source) => errors.push(OwnerError::Selector { index, source }),
            }
        }
        Self { tenant: tenant.name_any(), selectors, errors }
    }

    /// Returns whether a `TenantOwner` matches.
    pub fn matches(&self, owner: &TenantOwner) -> bool {
        let labels = owner.labels();
        labels.get(OBJECT_TENANT_LABEL) == Some(&self.tenant)
            || self.selectors.iter().any(|selector| selector.matches(labels))
    }

    /// Returns the `TenantOwner`s that match, sorted by kind and name.
    pub fn select<'o>(&self, owners: impl IntoIterator<Item = &'o TenantOwner>) -> Vec<&'o TenantOwner> {
        let mut selected: Vec<_> = owners.into_iter().filter(|owner| self.matches(owner)).collect();
        selected.sort_by(|one, other| {
            let key = |owner: &TenantOwner| (owner.spec.kind, owner.spec.name.clone(), owner.name_any());
            key(one).cmp(&key(other))
        });
        selected
    }

    /// Returns the errors of invalid selectors.
    pub fn into_errors(self) -> Vec<OwnerError> {
        self.errors
    }
}

/// Returns the owners of a Tenant, each kind and name once with all its roles: the owners in the
/// spec in their order, then the `TenantOwner`s that the Tenant selects.
///
/// Admission uses the result, and the status lists it. An invalid selector selects no owner.
pub fn owners<'o>(
    tenant: &Tenant,
    tenant_owners: impl IntoIterator<Item = &'o TenantOwner>,
) -> Vec<OwnerStatus> {
    let selected = OwnerSelectors::of(tenant).select(tenant_owners);
    let spec = tenant.spec.owners.iter().map(|owner| (owner.kind, &owner.name, &owner.cluster_roles));
    let selected =
        selected.iter().map(|owner| (owner.spec.kind, &owner.spec.name, &owner.spec.cluster_roles));
    let mut owners: Vec<OwnerStatus> = Vec::new();
    for (kind, name, cluster_roles) in spec.chain(selected) {
        add_owner(&mut owners, kind, name, cluster_roles);
    }
    owners
}

/// Adds an owner to a list. An owner with this kind and name gets the missing ClusterRoles.
pub fn add_owner(owners: &mut Vec<OwnerStatus>, kind: OwnerKind, name: &str, cluster_roles: &[String]) {
    if let Some(owner) = owners.iter_mut().find(|owner| owner.kind == kind && owner.name == *name) {
        let more = cluster_roles.iter().filter(|role| !owner.cluster_roles.contains(role));
        let more: Vec<_> = more.cloned().collect();
        owner.cluster_roles.extend(more);
    } else {
        let (name, cluster_roles) = (name.to_owned(), cluster_roles.to_vec());
        owners.push(OwnerStatus { kind, name, cluster_roles });
    }
}

/// Returns whether a change of a `TenantOwner` can change the owners of a Tenant: a create, a
/// delete, or a change of its spec, labels, or UID.
pub fn is_relevant_change(change: &Change<TenantOwner>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    old.spec != new.spec || old.metadata.labels != new.metadata.labels || old.metadata.uid != new.metadata.uid
}

/// Returns the owner as the subject of a RoleBinding. The API group is part of the RoleBinding's
/// name.
///
/// # Errors
/// Returns an error if the name of a ServiceAccount has another form.
pub fn subject(kind: OwnerKind, name: &str) -> Result<Subject, OwnerError> {
    let user_or_group = |kind: &str| Subject {
        api_group: Some("rbac.authorization.k8s.io".to_owned()),
        kind: kind.to_owned(),
        name: name.to_owned(),
        namespace: None,
    };
    match kind {
        OwnerKind::User => Ok(user_or_group("User")),
        OwnerKind::Group => Ok(user_or_group("Group")),
        OwnerKind::ServiceAccount => service_account(name).ok_or_else(|| OwnerError::Name(name.to_owned())),
    }
}

/// Returns the kind and full name of a subject, in the form in which owners are named.
pub fn kind_and_name(subject: &Subject) -> Option<(OwnerKind, String)> {
    let name = subject.name.clone();
    match subject.kind.as_str() {
        "User" => Some((OwnerKind::User, name)),
        "Group" => Some((OwnerKind::Group, name)),
        "ServiceAccount" => {
            let namespace = subject.namespace.as_deref()?;
            Some((OwnerKind::ServiceAccount, format!("system:serviceaccount:{namespace}:{name}")))
        }
        _ => None,
    }
}

fn service_account(name: &str) -> Option<Subject> {
    let (namespace, name) = name.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let valid = !namespace.is_empty() && !name.is_empty() && !name.contains(':');
    valid.then(|| Subject {
        api_group: None,
        kind: "ServiceAccount".to_owned(),
        name: name.to_owned(),
        namespace: Some(namespace.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn tenant(spec: Value) -> Tenant {
        serde_json::from_value(json!({ "metadata": { "name": "oil" }, "spec": spec })).unwrap()
    }

    fn spec_owners(tenant: &Tenant) -> Vec<OwnerStatus> {
        owners(tenant, [])
    }

    fn owner(name: &str, labels: Value, spec: Value) -> TenantOwner {
        serde_json::from_value(json!({ "metadata": { "name": name, "labels": labels }, "spec": spec }))
            .unwrap()
    }

    fn names(tenant: &Tenant, tenant_owners: &[TenantOwner]) -> Vec<String> {
        owners(tenant, tenant_owners).into_iter().map(|owner| owner.name).collect()
    }

    #[test]
    fn owner_listed_twice_is_merged() {
        let tenant = tenant(json!({ "owners": [
            { "kind": "User", "name": "alice", "clusterRoles": ["admin", "view"] },
            { "kind": "Group", "name": "alice", "clusterRoles": ["edit"] },
            { "kind": "User", "name": "alice", "clusterRoles": ["view", "edit"] },
        ] }));
        let owners = spec_owners(&tenant);
        assert_eq!(owners.len(), 2);
        assert_eq!(owners[0].cluster_roles, ["admin", "view", "edit"]);
    }

    #[test]
    fn tenant_owners_are_selected_by_label_or_any_selector() {
        let tenant_owners = [
            owner("d", json!({ "team": "blue" }), json!({ "kind": "User", "name": "bob" })),
            owner("c", json!({ "env": "dev" }), json!({ "kind": "Group", "name": "devs" })),
            owner("b", json!({ OBJECT_TENANT_LABEL: "oil" }), json!({ "kind": "User", "name": "anna" })),
            owner("a", json!({ OBJECT_TENANT_LABEL: "gas" }), json!({ "kind": "User", "name": "eve" })),
        ];
        assert_eq!(names(&tenant(json!({})), &tenant_owners), ["anna"]);
        let selecting = json!({ "matchOwners": [
            { "matchLabels": { "team": "blue" } },
            { "matchExpressions": [{ "key": "env", "operator": "In", "values": ["dev", "test"] }] },
        ] });
        let alice = json!([{ "kind": "User", "name": "alice" }]);
        let tenant = tenant(json!({ "owners": alice, "permissions": selecting }));
        assert_eq!(names(&tenant, &tenant_owners), ["alice", "anna", "bob", "devs"]);
        let reversed: Vec<_> = tenant_owners.iter().rev().cloned().collect();
        assert_eq!(names(&tenant, &reversed), names(&tenant, &tenant_owners));
    }

    #[test]
    fn change_of_labels_is_relevant_and_change_of_status_is_not() {
        let one = owner("one", json!({}), json!({ "kind": "User", "name": "anna" }));
        let with_status =
            TenantOwner { status: Some(crate::api::v1beta2::TenantOwnerStatus::default()), ..one.clone() };
        let labelled = owner("one", json!({ "a": "b" }), json!({ "kind": "User", "name": "anna" }));
        let is_relevant = |new: &TenantOwner| {
            let key = operator_core::ObjectKey::cluster("one");
            is_relevant_change(&Change { key, old: Some(one.clone().into()), new: Some(new.clone().into()) })
        };
        assert!(!is_relevant(&with_status));
        assert!(is_relevant(&labelled));
    }
}
