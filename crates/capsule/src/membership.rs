//! Membership of namespaces in Tenants. Pure.
//!
//! A namespace is a member only if its label and its owner reference both refer to the Tenant. A
//! client that can forge only one of them gains nothing.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use operator_core::owner::refers_to;

use crate::api::{names::TENANT_LABEL, v1beta2::Tenant};

/// Reason why a namespace that refers to a Tenant is not a member of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MembershipError {
    /// The namespace has the label and no owner reference.
    #[error(
        "it has the label capsule.clastix.io/tenant and no owner reference to the Tenant; an administrator can add one"
    )]
    NoReference,
    /// The namespace has an owner reference and not the label.
    #[error(
        "it has an owner reference to the Tenant and no label capsule.clastix.io/tenant with the name of the Tenant; \
         an administrator can add the label"
    )]
    NoLabel,
    /// The owner reference has another name or UID.
    #[error(
        "the name and UID of its owner reference are not those of this Tenant; an administrator can correct them"
    )]
    OtherTenant,
    /// The owner reference has `controller: true`.
    #[error("its owner reference to the Tenant has controller: true; an administrator can remove that field")]
    Controls,
    /// The namespace has owner references to several Tenants.
    #[error("it has owner references to several Tenants; an administrator can remove all but one")]
    Several,
    /// The namespace belongs to the cluster or to the manager.
    #[error("namespaces of the cluster and of the manager cannot belong to a Tenant")]
    Reserved,
}

/// Checks whether a namespace with this metadata is a member of the Tenant.
///
/// # Errors
/// Returns the reason why it is not.
pub fn check_membership(
    namespace: &ObjectMeta,
    tenant: &Tenant,
    manager_namespace: &str,
) -> Result<(), MembershipError> {
    let references: Vec<_> = tenant_references(namespace).collect();
    let [reference] = references.as_slice() else {
        return Err(if references.is_empty() {
            MembershipError::NoReference
        } else {
            MembershipError::Several
        });
    };
    let name = tenant.metadata.name.as_deref();
    if Some(reference.uid.as_str()) != tenant.metadata.uid.as_deref() || Some(reference.name.as_str()) != name
    {
        return Err(MembershipError::OtherTenant);
    }
    if tenant_label(namespace) != name {
        return Err(MembershipError::NoLabel);
    }
    if reference.controller == Some(true) {
        return Err(MembershipError::Controls);
    }
    if namespace.name.as_deref().is_some_and(|name| is_system_namespace(name, manager_namespace)) {
        return Err(MembershipError::Reserved);
    }
    Ok(())
}

/// Returns the names of the Tenants that a namespace refers to by label or owner reference.
pub fn referenced_tenants(namespace: &ObjectMeta) -> Vec<String> {
    let owners = tenant_references(namespace).map(|reference| reference.name.as_str());
    let mut names: Vec<_> = tenant_label(namespace).into_iter().chain(owners).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

/// Returns the value of the Tenant label.
pub fn tenant_label(namespace: &ObjectMeta) -> Option<&str> {
    namespace.labels.as_ref()?.get(TENANT_LABEL).map(String::as_str)
}

/// Returns the owner references to Tenants.
pub fn tenant_references(namespace: &ObjectMeta) -> impl Iterator<Item = &OwnerReference> {
    namespace.owner_references.iter().flatten().filter(|reference| refers_to::<Tenant>(reference))
}

/// Returns whether the cluster needs the namespace. The deletion of a Tenant deletes its
/// namespaces.
fn is_system_namespace(name: &str, manager_namespace: &str) -> bool {
    name == "default" || name.starts_with("kube-") || name == manager_namespace
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn reference(name: &str, uid: &str) -> Value {
        json!({ "apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant", "name": name, "uid": uid })
    }

    fn check(name: &str, label: Option<&str>, references: &[Value]) -> Result<(), MembershipError> {
        let mut labels = json!({});
        if let Some(label) = label {
            labels[TENANT_LABEL] = label.into();
        }
        let meta = json!({ "name": name, "labels": labels, "ownerReferences": references });
        let tenant = json!({ "metadata": { "name": "oil", "uid": "1" }, "spec": {} });
        check_membership(
            &serde_json::from_value(meta).unwrap(),
            &serde_json::from_value(tenant).unwrap(),
            "ensemble-system",
        )
    }

    #[test]
    fn namespace_with_label_and_reference_is_a_member() {
        assert_eq!(check("a", Some("oil"), &[reference("oil", "1")]), Ok(()));
        let older = json!({ "apiVersion": "capsule.clastix.io/v1beta1", "kind": "Tenant", "name": "oil", "uid": "1" });
        assert_eq!(check("a", Some("oil"), &[older]), Ok(()));
        let other =
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "9", "controller": true });
        assert_eq!(check("a", Some("oil"), &[other, reference("oil", "1")]), Ok(()));
    }

    #[test]
    fn rejects_namespace_with_only_label_or_only_reference() {
        assert_eq!(check("a", Some("oil"), &[]), Err(MembershipError::NoReference));
        assert_eq!(check("a", None, &[reference("oil", "1")]), Err(MembershipError::NoLabel));
        assert_eq!(check("a", Some("gas"), &[reference("oil", "1")]), Err(MembershipError::NoLabel));
    }

    #[test]
    fn rejects_forged_and_multiple_references() {
        assert_eq!(check("a", Some("oil"), &[reference("oil", "2")]), Err(MembershipError::OtherTenant));
        assert_eq!(check("a", Some("oil"), &[reference("gas", "1")]), Err(MembershipError::OtherTenant));
        let both = [reference("oil", "1"), reference("gas", "2")];
        assert_eq!(check("a", Some("oil"), &both), Err(MembershipError::Several));
        let mut controls = reference("oil", "1");
        controls["controller"] = true.into();
        assert_eq!(check("a", Some("oil"), &[controls]), Err(MembershipError::Controls));
        let mut other_kind = reference("oil", "1");
        other_kind["apiVersion"] = "example.com/v1".into();
        assert_eq!(check("a", Some("oil"), &[other_kind]), Err(MembershipError::NoReference));
    }

    #[test]
    fn rejects_system_namespaces() {
        for name in ["default", "kube-system", "ensemble-system"] {
            let result = check(name, Some("oil"), &[reference("oil", "1")]);
            assert_eq!(result, Err(MembershipError::Reserved));
        }
    }

    #[test]
    fn referenced_tenants_come_from_label_and_references() {
        let meta: ObjectMeta = serde_json::from_value(json!({
            "labels": { TENANT_LABEL: "oil" },
            "ownerReferences": [reference("gas", "2"), reference("oil", "1")],
        }))
        .unwrap();
        assert_eq!(referenced_tenants(&meta), ["gas", "oil"]);
    }
}
