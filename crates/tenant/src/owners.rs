//! Who owns a Tenant, and the rights they get in its namespaces. Pure.

use k8s_openapi::api::rbac::v1::Subject;
use kube::{
    ResourceExt,
    core::{ParseExpressionError, Selector, SelectorExt},
};
use operator_core::informer::Change;

use crate::{
    api::{
        names::OBJECT_TENANT_LABEL,
        v1beta2::{OwnerKind, OwnerStatus, Tenant, TenantOwner},
    },
    children::Binding,
};

/// An owner who gets no rights.
#[derive(Debug, thiserror::Error)]
pub enum OwnerError {
    /// The name does not say whom it means.
    #[error(
        "the owner \"{0}\" gets no rights: the name of a ServiceAccount must have the form \
         system:serviceaccount:<namespace>:<name>"
    )]
    Name(String),
    /// A selector cannot be used, so it picks nobody.
    #[error("spec.permissions.matchOwners[{index}] cannot be used, and picks no TenantOwner")]
    Selector {
        /// The entry.
        index: usize,
        /// What is wrong with it.
        source: ParseExpressionError,
    },
}

/// How a Tenant picks its `TenantOwner`s: by the label `projectcapsule.dev/tenant` with its name, and by the selectors of
/// `spec.permissions.matchOwners`, any of which is enough.
#[derive(Debug)]
pub struct Selectors {
    tenant: String,
    picking: Vec<Selector>,
    malformed: Vec<OwnerError>,
}

impl Selectors {
    /// Those of a Tenant.
    pub fn of(tenant: &Tenant) -> Self {
        let (mut picking, mut malformed) = (Vec::new(), Vec::new());
        let given = tenant.spec.permissions.iter().flat_map(|permissions| &permissions.match_owners);
        for (index, selector) in given.enumerate() {
            match Selector::try_from(selector.clone()) {
                Ok(selector) => picking.push(selector),
                Err(source) => malformed.push(OwnerError::Selector { index, source }),
            }
        }
        Self { tenant: tenant.name_any(), picking, malformed }
    }

    /// Whether they pick an owner.
    pub fn pick(&self, owner: &TenantOwner) -> bool {
        let labels = owner.labels();
        labels.get(OBJECT_TENANT_LABEL) == Some(&self.tenant)
            || self.picking.iter().any(|selector| selector.matches(labels))
    }

    /// Those of `among` that they pick, sorted.
    fn picked<'o>(&self, among: impl IntoIterator<Item = &'o TenantOwner>) -> Vec<&'o TenantOwner> {
        let mut picked: Vec<_> = among.into_iter().filter(|owner| self.pick(owner)).collect();
        picked.sort_by(|one, other| {
            let key = |owner: &TenantOwner| (owner.spec.kind, owner.spec.name.clone(), owner.name_any());
            key(one).cmp(&key(other))
        });
        picked
    }
}

/// Everybody who owns a Tenant, each kind and name once with all the roles that they get: the owners of the spec in its
/// order, then the `TenantOwner`s that it picks from `among`.
///
/// This is what admission goes by, and what the status says. A selector that cannot be used picks nobody.
pub fn owners<'o>(tenant: &Tenant, among: impl IntoIterator<Item = &'o TenantOwner>) -> Vec<OwnerStatus> {
    let picked = Selectors::of(tenant).picked(among);
    let given = tenant.spec.owners.iter().map(|owner| (owner.kind, &owner.name, &owner.cluster_roles));
    let picked = picked.iter().map(|owner| (owner.spec.kind, &owner.spec.name, &owner.spec.cluster_roles));
    let mut owners: Vec<OwnerStatus> = Vec::new();
    for (kind, name, cluster_roles) in given.chain(picked) {
        match owners.iter_mut().find(|known| known.kind == kind && known.name == *name) {
            Some(known) => {
                let more = cluster_roles.iter().filter(|role| !known.cluster_roles.contains(role));
                let more: Vec<_> = more.cloned().collect();
                known.cluster_roles.extend(more);
            }
            None => {
                owners.push(OwnerStatus { kind, name: name.clone(), cluster_roles: cluster_roles.clone() });
            }
        }
    }
    owners
}

/// The rights in each namespace: every role of every owner, those of the spec after those that are picked from `among`,
/// then the additional RoleBindings; and the owners that got none.
pub fn bindings<'o>(
    tenant: &Tenant,
    among: impl IntoIterator<Item = &'o TenantOwner>,
) -> (Vec<Binding>, Vec<OwnerError>) {
    let selectors = Selectors::of(tenant);
    let picked = selectors.picked(among);
    let (mut bindings, mut errors) = (Vec::new(), selectors.malformed);
    let mut bind = |kind: OwnerKind, name: &str, roles: &[String], more: &Binding| match subject(kind, name) {
        Ok(subject) => bindings.extend(roles.iter().map(|role| Binding {
            cluster_role: role.clone(),
            subjects: vec![subject.clone()],
            ..more.clone()
        })),
        Err(error) => errors.push(error),
    };
    for TenantOwner { spec: owner, .. } in picked {
        bind(owner.kind, &owner.name, &owner.cluster_roles, &Binding::default());
    }
    for owner in &tenant.spec.owners {
        let (labels, annotations) = (owner.labels.clone(), owner.annotations.clone());
        let more = Binding { labels, annotations, ..Binding::default() };
        bind(owner.kind, &owner.name, &owner.cluster_roles, &more);
    }
    bindings.extend(tenant.spec.additional_role_bindings.iter().map(|additional| Binding {
        cluster_role: additional.cluster_role_name.clone(),
        subjects: additional.subjects.clone(),
        labels: additional.labels.clone(),
        annotations: additional.annotations.clone(),
    }));
    (bindings, errors)
}

/// Whether a `TenantOwner` came, went, means somebody else, or may be picked by other Tenants than before.
pub fn differs(change: &Change<TenantOwner>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    old.spec != new.spec || old.metadata.labels != new.metadata.labels || old.metadata.uid != new.metadata.uid
}

/// The owner as the subject of a RoleBinding; the API group counts for the RoleBinding's name.
pub(crate) fn subject(kind: OwnerKind, name: &str) -> Result<Subject, OwnerError> {
    let person = |kind: &str| Subject {
        api_group: Some("rbac.authorization.k8s.io".to_owned()),
        kind: kind.to_owned(),
        name: name.to_owned(),
        namespace: None,
    };
    match kind {
        OwnerKind::User => Ok(person("User")),
        OwnerKind::Group => Ok(person("Group")),
        OwnerKind::ServiceAccount => service_account(name).ok_or_else(|| OwnerError::Name(name.to_owned())),
    }
}

/// Returns the kind and full name of whom the subject of a binding means, as owners are named.
pub(crate) fn kind_and_name(subject: &Subject) -> Option<(OwnerKind, String)> {
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

    fn given(tenant: &Tenant) -> Vec<OwnerStatus> {
        owners(tenant, [])
    }

    fn owner(name: &str, labels: Value, spec: Value) -> TenantOwner {
        serde_json::from_value(json!({ "metadata": { "name": name, "labels": labels }, "spec": spec }))
            .unwrap()
    }

    fn names(tenant: &Tenant, among: &[TenantOwner]) -> Vec<String> {
        owners(tenant, among).into_iter().map(|owner| owner.name).collect()
    }

    #[test]
    fn an_owner_without_roles_has_the_default_ones() {
        let tenant = tenant(json!({ "owners": [{ "kind": "User", "name": "alice" }] }));
        assert_eq!(given(&tenant)[0].cluster_roles, ["admin", "capsule-namespace-deleter"]);
        let (bindings, errors) = bindings(&tenant, []);
        assert!(errors.is_empty());
        let roles: Vec<_> = bindings.iter().map(|binding| binding.cluster_role.as_str()).collect();
        assert_eq!(roles, ["admin", "capsule-namespace-deleter"]);
        assert_eq!(bindings[0].subjects[0].api_group.as_deref(), Some("rbac.authorization.k8s.io"));
    }

    #[test]
    fn an_owner_who_is_named_twice_is_one_with_all_the_roles() {
        let tenant = tenant(json!({ "owners": [
            { "kind": "User", "name": "alice", "clusterRoles": ["admin", "view"] },
            { "kind": "Group", "name": "alice", "clusterRoles": ["edit"] },
            { "kind": "User", "name": "alice", "clusterRoles": ["view", "edit"] },
        ] }));
        let owners = given(&tenant);
        assert_eq!(owners.len(), 2);
        assert_eq!(owners[0].cluster_roles, ["admin", "view", "edit"]);
    }

    #[test]
    fn a_service_account_is_named_with_its_namespace() {
        let tenant = tenant(json!({ "owners": [{
            "kind": "ServiceAccount", "name": "system:serviceaccount:solar:owner", "clusterRoles": ["admin"],
        }] }));
        let subject = &bindings(&tenant, []).0[0].subjects[0];
        assert_eq!((subject.namespace.as_deref(), subject.name.as_str()), (Some("solar"), "owner"));
        assert_eq!(subject.api_group, None);
    }

    #[test]
    fn a_malformed_owner_gets_nothing_and_does_not_stand_in_the_way_of_others() {
        for name in [
            "solar:owner",
            "system:serviceaccount:owner",
            "system:serviceaccount:a:b:c",
            "system:serviceaccount::b",
        ] {
            let tenant = tenant(json!({ "owners": [
                { "kind": "ServiceAccount", "name": name },
                { "kind": "User", "name": "alice", "clusterRoles": ["view"] },
            ] }));
            let (bindings, errors) = bindings(&tenant, []);
            assert_eq!(errors.len(), 1);
            assert!(errors[0].to_string().contains(name), "{errors:?}");
            assert_eq!(bindings.len(), 1);
        }
    }

    #[test]
    fn labels_of_an_owner_and_additional_bindings_are_kept() {
        let tenant = tenant(json!({
            "owners": [{ "kind": "User", "name": "alice", "clusterRoles": ["view"], "labels": { "a": "b" } }],
            "additionalRoleBindings": [{
                "clusterRoleName": "metrics",
                "subjects": [{ "kind": "Group", "name": "devs" }],
                "annotations": { "c": "d" },
            }],
        }));
        let (bindings, _) = bindings(&tenant, []);
        assert_eq!(bindings[0].labels["a"], "b");
        assert_eq!(bindings[1].annotations["c"], "d");
        assert_eq!(bindings[1].subjects[0].api_group, None, "as it is given, since the name depends on it");
    }

    #[test]
    fn tenant_owners_are_picked_by_the_label_or_by_any_selector() {
        let among = [
            owner("d", json!({ "team": "blue" }), json!({ "kind": "User", "name": "bob" })),
            owner("c", json!({ "env": "dev" }), json!({ "kind": "Group", "name": "devs" })),
            owner("b", json!({ OBJECT_TENANT_LABEL: "oil" }), json!({ "kind": "User", "name": "anna" })),
            owner("a", json!({ OBJECT_TENANT_LABEL: "gas" }), json!({ "kind": "User", "name": "eve" })),
        ];
        assert_eq!(names(&tenant(json!({})), &among), ["anna"]);
        let selecting = json!({ "matchOwners": [
            { "matchLabels": { "team": "blue" } },
            { "matchExpressions": [{ "key": "env", "operator": "In", "values": ["dev", "test"] }] },
        ] });
        let alice = json!([{ "kind": "User", "name": "alice" }]);
        let tenant = tenant(json!({ "owners": alice, "permissions": selecting }));
        assert_eq!(names(&tenant, &among), ["alice", "anna", "bob", "devs"], "in an order of their own");
        let backwards: Vec<_> = among.iter().rev().cloned().collect();
        assert_eq!(names(&tenant, &backwards), names(&tenant, &among));
    }

    #[test]
    fn an_owner_who_is_given_and_picked_is_one_with_all_the_roles() {
        let picked = owner(
            "one",
            json!({ OBJECT_TENANT_LABEL: "oil" }),
            json!({ "kind": "User", "name": "alice", "clusterRoles": ["view", "admin"] }),
        );
        let alice =
            json!({ "kind": "User", "name": "alice", "clusterRoles": ["admin"], "labels": { "a": "b" } });
        let tenant = tenant(json!({ "owners": [alice] }));
        assert_eq!(owners(&tenant, [&picked])[0].cluster_roles, ["admin", "view"]);
        let (bindings, errors) = bindings(&tenant, [&picked]);
        assert!(errors.is_empty());
        let last = bindings.iter().rfind(|binding| binding.cluster_role == "admin").unwrap();
        assert_eq!(last.labels["a"], "b", "of two for one RoleBinding the later counts");
    }

    #[test]
    fn a_selector_that_cannot_be_used_picks_nobody_and_is_told() {
        let odd = json!({ "matchExpressions": [{ "key": "a", "operator": "Like" }] });
        let tenant =
            tenant(json!({ "permissions": { "matchOwners": [odd, { "matchLabels": { "a": "b" } }] } }));
        let among = [owner("one", json!({ "a": "b" }), json!({ "kind": "User", "name": "anna" }))];
        assert_eq!(names(&tenant, &among), ["anna"]);
        let (_, errors) = bindings(&tenant, &among);
        assert_eq!(errors.len(), 1);
        assert!(errors[0].to_string().contains("matchOwners[0]"), "{errors:?}");
    }

    #[test]
    fn only_what_may_change_who_owns_what_is_a_difference() {
        let one = owner("one", json!({}), json!({ "kind": "User", "name": "anna" }));
        let told =
            TenantOwner { status: Some(crate::api::v1beta2::TenantOwnerStatus::default()), ..one.clone() };
        let labelled = owner("one", json!({ "a": "b" }), json!({ "kind": "User", "name": "anna" }));
        let is_different = |new: &TenantOwner| {
            let key = operator_core::ObjectKey::cluster("one");
            differs(&Change { key, old: Some(one.clone().into()), new: Some(new.clone().into()) })
        };
        assert!(!is_different(&told));
        assert!(is_different(&labelled));
    }
}
