//! RoleBindings of the owners in the namespaces of a Tenant. Pure.

use capsule::{
    api::v1beta2::{OwnerKind, OwnerStatus, Tenant, TenantOwner},
    owners::{OwnerError, OwnerSelectors, subject},
};

use crate::children::Binding;

/// Returns the bindings for each namespace, and the errors of invalid owners.
///
/// The order is: owners by the configuration, selected `TenantOwner`s, owners in the spec,
/// additional RoleBindings. If two bindings have the same name, the later one takes precedence.
pub fn bindings<'o>(
    tenant: &Tenant,
    tenant_owners: impl IntoIterator<Item = &'o TenantOwner>,
    by_configuration: &[OwnerStatus],
) -> (Vec<Binding>, Vec<OwnerError>) {
    let selectors = OwnerSelectors::of(tenant);
    let selected = selectors.select(tenant_owners);
    let (mut bindings, mut errors) = (Vec::new(), selectors.into_errors());
    let mut bind =
        |kind: OwnerKind, name: &str, roles: &[String], template: &Binding| match subject(kind, name) {
            Ok(subject) => bindings.extend(roles.iter().map(|role| Binding {
                cluster_role: role.clone(),
                subjects: vec![subject.clone()],
                ..template.clone()
            })),
            Err(error) => errors.push(error),
        };
    for owner in by_configuration {
        bind(owner.kind, &owner.name, &owner.cluster_roles, &Binding::default());
    }
    for TenantOwner { spec: owner, .. } in selected {
        bind(owner.kind, &owner.name, &owner.cluster_roles, &Binding::default());
    }
    for owner in &tenant.spec.owners {
        let (labels, annotations) = (owner.labels.clone(), owner.annotations.clone());
        let template = Binding { labels, annotations, ..Binding::default() };
        bind(owner.kind, &owner.name, &owner.cluster_roles, &template);
    }
    bindings.extend(tenant.spec.additional_role_bindings.iter().map(|additional| Binding {
        cluster_role: additional.cluster_role_name.clone(),
        subjects: additional.subjects.clone(),
        labels: additional.labels.clone(),
        annotations: additional.annotations.clone(),
    }));
    (bindings, errors)
}

#[cfg(test)]
mod tests {
    use capsule::{api::names::OBJECT_TENANT_LABEL, owners::owners};
    use serde_json::{Value, json};

    use super::*;

    fn tenant(spec: Value) -> Tenant {
        serde_json::from_value(json!({ "metadata": { "name": "oil" }, "spec": spec })).unwrap()
    }

    fn owner(name: &str, labels: Value, spec: Value) -> TenantOwner {
        serde_json::from_value(json!({ "metadata": { "name": name, "labels": labels }, "spec": spec }))
            .unwrap()
    }

    #[test]
    fn owner_without_roles_gets_the_default_roles() {
        let tenant = tenant(json!({ "owners": [{ "kind": "User", "name": "alice" }] }));
        assert_eq!(owners(&tenant, [])[0].cluster_roles, ["admin", "capsule-namespace-deleter"]);
        let (bindings, errors) = bindings(&tenant, [], &[]);
        assert!(errors.is_empty());
        let roles: Vec<_> = bindings.iter().map(|binding| binding.cluster_role.as_str()).collect();
        assert_eq!(roles, ["admin", "capsule-namespace-deleter"]);
        assert_eq!(bindings[0].subjects[0].api_group.as_deref(), Some("rbac.authorization.k8s.io"));
    }

    #[test]
    fn service_account_name_contains_its_namespace() {
        let tenant = tenant(json!({ "owners": [{
            "kind": "ServiceAccount", "name": "system:serviceaccount:solar:owner", "clusterRoles": ["admin"],
        }] }));
        let subject = &bindings(&tenant, [], &[]).0[0].subjects[0];
        assert_eq!((subject.namespace.as_deref(), subject.name.as_str()), (Some("solar"), "owner"));
        assert_eq!(subject.api_group, None);
    }

    #[test]
    fn invalid_owner_is_skipped_and_reported() {
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
            let (bindings, errors) = bindings(&tenant, [], &[]);
            assert_eq!(errors.len(), 1);
            assert!(errors[0].to_string().contains(name), "{errors:?}");
            assert_eq!(bindings.len(), 1);
        }
    }

    #[test]
    fn bindings_keep_labels_and_annotations() {
        let tenant = tenant(json!({
            "owners": [{ "kind": "User", "name": "alice", "clusterRoles": ["view"], "labels": { "a": "b" } }],
            "additionalRoleBindings": [{
                "clusterRoleName": "metrics",
                "subjects": [{ "kind": "Group", "name": "devs" }],
                "annotations": { "c": "d" },
            }],
        }));
        let (bindings, _) = bindings(&tenant, [], &[]);
        assert_eq!(bindings[0].labels["a"], "b");
        assert_eq!(bindings[1].annotations["c"], "d");
        assert_eq!(bindings[1].subjects[0].api_group, None, "the name depends on the subject as given");
    }

    #[test]
    fn owner_in_spec_and_as_tenant_owner_is_merged() {
        let selected = owner(
            "one",
            json!({ OBJECT_TENANT_LABEL: "oil" }),
            json!({ "kind": "User", "name": "alice", "clusterRoles": ["view", "admin"] }),
        );
        let alice =
            json!({ "kind": "User", "name": "alice", "clusterRoles": ["admin"], "labels": { "a": "b" } });
        let tenant = tenant(json!({ "owners": [alice] }));
        assert_eq!(owners(&tenant, [&selected])[0].cluster_roles, ["admin", "view"]);
        let (bindings, errors) = bindings(&tenant, [&selected], &[]);
        assert!(errors.is_empty());
        let last = bindings.iter().rfind(|binding| binding.cluster_role == "admin").unwrap();
        assert_eq!(last.labels["a"], "b", "the later binding takes precedence");
    }

    #[test]
    fn invalid_selector_selects_no_owner_and_is_reported() {
        let invalid = json!({ "matchExpressions": [{ "key": "a", "operator": "Like" }] });
        let tenant =
            tenant(json!({ "permissions": { "matchOwners": [invalid, { "matchLabels": { "a": "b" } }] } }));
        let tenant_owners = [owner("one", json!({ "a": "b" }), json!({ "kind": "User", "name": "anna" }))];
        let selected = owners(&tenant, &tenant_owners);
        assert_eq!(selected.iter().map(|owner| owner.name.as_str()).collect::<Vec<_>>(), ["anna"]);
        let (_, errors) = bindings(&tenant, &tenant_owners, &[]);
        assert_eq!(errors.len(), 1);
        assert!(errors[0].to_string().contains("matchOwners[0]"), "{errors:?}");
    }
}
