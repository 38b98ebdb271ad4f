//! What the metadata of an existing object says about replications. Pure.

use std::collections::BTreeSet;

use capsule::api::names::{
    CREATED_BY_LABEL, LEGACY_REPLICATION_LABEL, OBJECT_MANAGER, OBJECT_MANAGER_LABEL, REPLICATIONS,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;
use serde_json::{Map, Value, json};

use crate::item::FIELD_MANAGER_PREFIX;

/// Metadata of an existing object.
pub(crate) struct Live<'m>(pub(crate) &'m ObjectMeta);

impl Live<'_> {
    fn label(&self, key: &str) -> Option<&str> {
        self.0.labels.as_ref()?.get(key).map(String::as_str)
    }

    /// Returns whether a replication created the object, so that it can be deleted.
    pub(crate) fn is_created(&self) -> bool {
        self.label(CREATED_BY_LABEL) == Some(REPLICATIONS) || self.has_legacy_label()
    }

    /// Returns whether an older version of Capsule created the object.
    pub(crate) fn has_legacy_label(&self) -> bool {
        self.label(LEGACY_REPLICATION_LABEL).is_some()
    }

    /// Returns whether the Tenant controller manages the object. It is never adopted.
    pub(crate) fn is_managed_by_tenant(&self) -> bool {
        self.label(OBJECT_MANAGER_LABEL) == Some(OBJECT_MANAGER)
    }

    /// Returns the field managers of replications that have applied the object.
    pub(crate) fn replications(&self) -> BTreeSet<&str> {
        let managers = self.0.managed_fields.iter().flatten().filter_map(|entry| entry.manager.as_deref());
        managers.filter(|manager| manager.starts_with(FIELD_MANAGER_PREFIX)).collect()
    }

    /// Returns whether any other program has written the object.
    pub(crate) fn has_other_managers(&self) -> bool {
        let mut managers =
            self.0.managed_fields.iter().flatten().filter_map(|entry| entry.manager.as_deref());
        managers.any(|manager| !manager.starts_with(FIELD_MANAGER_PREFIX))
    }

    /// Returns the patch after which the object no longer belongs to a replication: without the label
    /// of the manager, and without the owner reference. `None` if it has neither.
    pub(crate) fn detachment(&self, owner: Option<&OwnerReference>) -> Option<Value> {
        let is_managed = self.label(OBJECT_MANAGER_LABEL) == Some(REPLICATIONS);
        let references = self.0.owner_references.clone().unwrap_or_default();
        let is_owner = |reference: &OwnerReference| owner.is_some_and(|owner| owner.uid == reference.uid);
        let others: Vec<_> = references.iter().filter(|reference| !is_owner(reference)).collect();
        if !is_managed && others.len() == references.len() {
            return None;
        }
        let mut metadata = Map::new();
        metadata.insert("uid".to_owned(), json!(self.0.uid));
        metadata.insert("resourceVersion".to_owned(), json!(self.0.resource_version));
        if is_managed {
            metadata.insert("labels".to_owned(), json!({ OBJECT_MANAGER_LABEL: null }));
        }
        if others.len() < references.len() {
            metadata.insert("ownerReferences".to_owned(), json!(others));
        }
        Some(json!({ "metadata": metadata }))
    }

    /// Returns the patch that removes the label of older versions of Capsule.
    pub(crate) fn without_legacy_label(&self) -> Value {
        json!({ "metadata": { "uid": self.0.uid, "labels": { LEGACY_REPLICATION_LABEL: null } } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(value: Value) -> ObjectMeta {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn tells_created_adopted_and_foreign_objects_apart() {
        let created = meta(json!({ "labels": { CREATED_BY_LABEL: REPLICATIONS } }));
        let legacy = meta(json!({ "labels": { LEGACY_REPLICATION_LABEL: "x" } }));
        let other =
            meta(json!({ "labels": { CREATED_BY_LABEL: "controller", OBJECT_MANAGER_LABEL: "controller" } }));
        assert!(Live(&created).is_created() && Live(&legacy).is_created());
        assert!(!Live(&other).is_created() && Live(&other).is_managed_by_tenant());
        assert!(!Live(&meta(json!({}))).is_created());
        let applied = meta(json!({ "managedFields": [
            { "manager": format!("{FIELD_MANAGER_PREFIX}1") }, { "manager": "kubectl" }, {},
        ] }));
        assert_eq!(Live(&applied).replications().len(), 1);
        assert!(Live(&applied).has_other_managers());
    }

    #[test]
    fn detachment_keeps_other_owners_and_the_creator() {
        let owner = OwnerReference { uid: "1".to_owned(), ..OwnerReference::default() };
        let reference = |uid: &str| json!({ "apiVersion": "v1", "kind": "X", "name": "x", "uid": uid });
        let object = meta(json!({
            "uid": "9", "resourceVersion": "5",
            "labels": { CREATED_BY_LABEL: REPLICATIONS, OBJECT_MANAGER_LABEL: REPLICATIONS },
            "ownerReferences": [reference("1"), reference("2")],
        }));
        let patch = Live(&object).detachment(Some(&owner)).unwrap();
        assert_eq!(patch["metadata"]["labels"], json!({ OBJECT_MANAGER_LABEL: null }));
        assert_eq!(patch["metadata"]["ownerReferences"], json!([reference("2")]));
        assert_eq!(patch["metadata"]["resourceVersion"], "5");
        let detached = meta(json!({ "labels": { CREATED_BY_LABEL: REPLICATIONS } }));
        assert_eq!(Live(&detached).detachment(Some(&owner)), None);
    }
}
