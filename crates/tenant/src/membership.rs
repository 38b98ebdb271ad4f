//! Whether a namespace belongs to a Tenant. Pure.
//!
//! A label says so and an owner reference says so, and only where both agree is it so: whoever can forge one
//! of them gains nothing.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use operator_core::owner::refers_to;

use crate::api::{names::TENANT_LABEL, v1beta2::Tenant};

/// Why a namespace that names a Tenant does not belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// The label alone.
    #[error(
        "it has the label capsule.clastix.io/tenant and no owner reference to the Tenant; an administrator can add one"
    )]
    NoReference,
    /// The reference alone.
    #[error(
        "it has an owner reference to the Tenant and not its name in the label capsule.clastix.io/tenant; \
         an administrator can add that"
    )]
    NoLabel,
    /// The reference means another object.
    #[error(
        "the name and UID in its owner reference are not those of this Tenant; an administrator can correct them"
    )]
    OtherTenant,
    /// The reference says `controller: true`.
    #[error("its owner reference to the Tenant says controller: true; an administrator can take that out")]
    Controls,
    /// It refers to more than one Tenant.
    #[error("it has owner references to several Tenants; an administrator can remove all but one")]
    Several,
    /// It is part of the cluster.
    #[error("namespaces of the cluster itself and of the manager belong to no Tenant")]
    Reserved,
}

/// Whether a namespace with this metadata belongs to the Tenant.
pub fn judge(namespace: &ObjectMeta, tenant: &Tenant, manager: &str) -> Result<(), Mismatch> {
    let references: Vec<_> = references(namespace).collect();
    let [reference] = references.as_slice() else {
        return Err(if references.is_empty() { Mismatch::NoReference } else { Mismatch::Several });
    };
    let name = tenant.metadata.name.as_deref();
    if Some(reference.uid.as_str()) != tenant.metadata.uid.as_deref() || Some(reference.name.as_str()) != name
    {
        return Err(Mismatch::OtherTenant);
    }
    if label(namespace) != name {
        return Err(Mismatch::NoLabel);
    }
    if reference.controller == Some(true) {
        return Err(Mismatch::Controls);
    }
    if namespace.name.as_deref().is_some_and(|name| is_reserved(name, manager)) {
        return Err(Mismatch::Reserved);
    }
    Ok(())
}

/// The names of the Tenants that the metadata of a namespace names, by label or by reference.
pub fn named(namespace: &ObjectMeta) -> Vec<String> {
    let referred = references(namespace).map(|reference| reference.name.as_str());
    let mut names: Vec<_> = label(namespace).into_iter().chain(referred).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

/// The Tenant that the label names.
pub(crate) fn label(namespace: &ObjectMeta) -> Option<&str> {
    namespace.labels.as_ref()?.get(TENANT_LABEL).map(String::as_str)
}

/// The owner references to Tenants.
pub(crate) fn references(namespace: &ObjectMeta) -> impl Iterator<Item = &OwnerReference> {
    namespace.owner_references.iter().flatten().filter(|reference| refers_to::<Tenant>(reference))
}

/// Deleting a Tenant deletes its namespaces, and the cluster needs these.
fn is_reserved(name: &str, manager: &str) -> bool {
    name == "default" || name.starts_with("kube-") || name == manager
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn reference(name: &str, uid: &str) -> Value {
        json!({ "apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant", "name": name, "uid": uid })
    }

    fn judged(name: &str, label: Option<&str>, references: &[Value]) -> Result<(), Mismatch> {
        let mut labels = json!({});
        if let Some(label) = label {
            labels[TENANT_LABEL] = label.into();
        }
        let meta = json!({ "name": name, "labels": labels, "ownerReferences": references });
        let tenant = json!({ "metadata": { "name": "oil", "uid": "1" }, "spec": {} });
        judge(
            &serde_json::from_value(meta).unwrap(),
            &serde_json::from_value(tenant).unwrap(),
            "ensemble-system",
        )
    }

    #[test]
    fn label_and_reference_together_make_a_member() {
        assert_eq!(judged("a", Some("oil"), &[reference("oil", "1")]), Ok(()));
        let older = json!({ "apiVersion": "capsule.clastix.io/v1beta1", "kind": "Tenant", "name": "oil", "uid": "1" });
        assert_eq!(judged("a", Some("oil"), &[older]), Ok(()));
        let other =
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "9", "controller": true });
        assert_eq!(judged("a", Some("oil"), &[other, reference("oil", "1")]), Ok(()));
    }

    #[test]
    fn one_of_them_alone_does_not() {
        assert_eq!(judged("a", Some("oil"), &[]), Err(Mismatch::NoReference));
        assert_eq!(judged("a", None, &[reference("oil", "1")]), Err(Mismatch::NoLabel));
        assert_eq!(judged("a", Some("gas"), &[reference("oil", "1")]), Err(Mismatch::NoLabel));
    }

    #[test]
    fn forged_and_doubled_references_do_not() {
        assert_eq!(judged("a", Some("oil"), &[reference("oil", "2")]), Err(Mismatch::OtherTenant));
        assert_eq!(judged("a", Some("oil"), &[reference("gas", "1")]), Err(Mismatch::OtherTenant));
        let both = [reference("oil", "1"), reference("gas", "2")];
        assert_eq!(judged("a", Some("oil"), &both), Err(Mismatch::Several));
        let mut controls = reference("oil", "1");
        controls["controller"] = true.into();
        assert_eq!(judged("a", Some("oil"), &[controls]), Err(Mismatch::Controls));
        let mut other_kind = reference("oil", "1");
        other_kind["apiVersion"] = "example.com/v1".into();
        assert_eq!(judged("a", Some("oil"), &[other_kind]), Err(Mismatch::NoReference));
    }

    #[test]
    fn the_cluster_itself_belongs_to_nobody() {
        for name in ["default", "kube-system", "ensemble-system"] {
            assert_eq!(judged(name, Some("oil"), &[reference("oil", "1")]), Err(Mismatch::Reserved));
        }
    }

    #[test]
    fn a_namespace_names_tenants_by_label_and_by_reference() {
        let meta: ObjectMeta = serde_json::from_value(json!({
            "labels": { TENANT_LABEL: "oil" },
            "ownerReferences": [reference("gas", "2"), reference("oil", "1")],
        }))
        .unwrap();
        assert_eq!(named(&meta), ["gas", "oil"]);
    }
}
