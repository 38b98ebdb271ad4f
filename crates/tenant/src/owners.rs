//! Who owns a Tenant, and the rights they get in its namespaces.

use k8s_openapi::api::rbac::v1::Subject;

use crate::{
    api::v1beta2::{OwnerKind, OwnerSpec, OwnerStatus, TenantSpec},
    children::Binding,
};

/// An owner whose name does not say whom it means.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the owner \"{0}\" gets no rights: the name of a ServiceAccount must have the form \
     system:serviceaccount:<namespace>:<name>"
)]
pub struct OwnerError(pub String);

/// The owners of the spec for the status, each kind and name once, with all the roles it is given.
pub fn status_owners(spec: &TenantSpec) -> Vec<OwnerStatus> {
    let mut owners: Vec<OwnerStatus> = Vec::new();
    for owner in &spec.owners {
        let known = owners.iter_mut().find(|known| known.kind == owner.kind && known.name == owner.name);
        match known {
            Some(known) => {
                let more = owner.cluster_roles.iter().filter(|role| !known.cluster_roles.contains(role));
                let more: Vec<_> = more.cloned().collect();
                known.cluster_roles.extend(more);
            }
            None => owners.push(OwnerStatus {
                kind: owner.kind,
                name: owner.name.clone(),
                cluster_roles: owner.cluster_roles.clone(),
            }),
        }
    }
    owners
}

/// The rights in each namespace: every role of every owner, then the additional RoleBindings; and the owners
/// that got none.
pub fn bindings(spec: &TenantSpec) -> (Vec<Binding>, Vec<OwnerError>) {
    let (mut bindings, mut errors) = (Vec::new(), Vec::new());
    for owner in &spec.owners {
        match subject(owner.kind, &owner.name) {
            Ok(subject) => bindings.extend(owner_bindings(owner, &subject)),
            Err(error) => errors.push(error),
        }
    }
    bindings.extend(spec.additional_role_bindings.iter().map(|additional| Binding {
        cluster_role: additional.cluster_role_name.clone(),
        subjects: additional.subjects.clone(),
        labels: additional.labels.clone(),
        annotations: additional.annotations.clone(),
    }));
    (bindings, errors)
}

fn owner_bindings(owner: &OwnerSpec, subject: &Subject) -> impl Iterator<Item = Binding> {
    owner.cluster_roles.iter().map(|role| Binding {
        cluster_role: role.clone(),
        subjects: vec![subject.clone()],
        labels: owner.labels.clone(),
        annotations: owner.annotations.clone(),
    })
}

/// The owner as the subject of a RoleBinding; the API group counts for the RoleBinding's name.
fn subject(kind: OwnerKind, name: &str) -> Result<Subject, OwnerError> {
    let person = |kind: &str| Subject {
        api_group: Some("rbac.authorization.k8s.io".to_owned()),
        kind: kind.to_owned(),
        name: name.to_owned(),
        namespace: None,
    };
    match kind {
        OwnerKind::User => Ok(person("User")),
        OwnerKind::Group => Ok(person("Group")),
        OwnerKind::ServiceAccount => service_account(name).ok_or_else(|| OwnerError(name.to_owned())),
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

    fn spec(value: Value) -> TenantSpec {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn an_owner_without_roles_has_the_default_ones() {
        let spec = spec(json!({ "owners": [{ "kind": "User", "name": "alice" }] }));
        assert_eq!(status_owners(&spec)[0].cluster_roles, ["admin", "capsule-namespace-deleter"]);
        let (bindings, errors) = bindings(&spec);
        assert!(errors.is_empty());
        let roles: Vec<_> = bindings.iter().map(|binding| binding.cluster_role.as_str()).collect();
        assert_eq!(roles, ["admin", "capsule-namespace-deleter"]);
        assert_eq!(bindings[0].subjects[0].api_group.as_deref(), Some("rbac.authorization.k8s.io"));
    }

    #[test]
    fn an_owner_who_is_named_twice_is_one_with_all_the_roles() {
        let spec = spec(json!({ "owners": [
            { "kind": "User", "name": "alice", "clusterRoles": ["admin", "view"] },
            { "kind": "Group", "name": "alice", "clusterRoles": ["edit"] },
            { "kind": "User", "name": "alice", "clusterRoles": ["view", "edit"] },
        ] }));
        let owners = status_owners(&spec);
        assert_eq!(owners.len(), 2);
        assert_eq!(owners[0].cluster_roles, ["admin", "view", "edit"]);
    }

    #[test]
    fn a_service_account_is_named_with_its_namespace() {
        let spec = spec(json!({ "owners": [{
            "kind": "ServiceAccount", "name": "system:serviceaccount:solar:owner", "clusterRoles": ["admin"],
        }] }));
        let subject = &bindings(&spec).0[0].subjects[0];
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
            let spec = spec(json!({ "owners": [
                { "kind": "ServiceAccount", "name": name },
                { "kind": "User", "name": "alice", "clusterRoles": ["view"] },
            ] }));
            let (bindings, errors) = bindings(&spec);
            assert_eq!(errors, [OwnerError(name.to_owned())]);
            assert_eq!(bindings.len(), 1);
        }
    }

    #[test]
    fn labels_of_an_owner_and_additional_bindings_are_kept() {
        let spec = spec(json!({
            "owners": [{ "kind": "User", "name": "alice", "clusterRoles": ["view"], "labels": { "a": "b" } }],
            "additionalRoleBindings": [{
                "clusterRoleName": "metrics",
                "subjects": [{ "kind": "Group", "name": "devs" }],
                "annotations": { "c": "d" },
            }],
        }));
        let (bindings, _) = bindings(&spec);
        assert_eq!(bindings[0].labels["a"], "b");
        assert_eq!(bindings[1].annotations["c"], "d");
        assert_eq!(bindings[1].subjects[0].api_group, None, "as it is given, since the name depends on it");
    }
}
