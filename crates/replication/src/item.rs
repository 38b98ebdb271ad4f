//! Items: what one place of a spec contributes to one object. Pure.

use std::fmt::{self, Write};

use capsule::api::{
    names::{CREATED_BY_LABEL, LEGACY_REPLICATION_LABEL, OBJECT_MANAGER_LABEL, REPLICATIONS},
    v1beta2::ProcessedItem,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::{GroupVersionKind, TypeMeta};
use ring::digest::{Context, SHA256};
use serde_json::{Map, Value, json};

/// Prefix of the field managers of replications.
pub(crate) const FIELD_MANAGER_PREFIX: &str = "projectcapsule.dev/replication-";

/// Labels that only the controller sets.
const OWN_LABELS: [&str; 4] =
    [CREATED_BY_LABEL, OBJECT_MANAGER_LABEL, LEGACY_REPLICATION_LABEL, "capsule.clastix.io/managed-by"];
/// Annotation of `kubectl apply`, which describes another object after a copy.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Metadata that only the API server sets.
const SERVER_METADATA: [&str; 10] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// An object of any kind. The version is no part of its identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ObjectId {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name, .. } = self;
        if namespace.is_empty() { write!(f, "{kind} {name}") } else { write!(f, "{kind} {namespace}/{name}") }
    }
}

/// Identity of an item: an object, and the place of the spec that describes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ItemKey {
    pub(crate) object: ObjectId,
    pub(crate) tenant: String,
    pub(crate) origin: String,
    /// Version that the item is written in.
    pub(crate) version: String,
}

impl ItemKey {
    /// Returns the key of an item in a status.
    pub(crate) fn of(item: &ProcessedItem) -> Self {
        Self {
            object: ObjectId {
                group: item.group.clone(),
                kind: item.kind.clone(),
                namespace: item.namespace.clone(),
                name: item.name.clone(),
            },
            tenant: item.tenant.clone(),
            origin: item.origin.clone(),
            version: item.version.clone(),
        }
    }

    /// Returns the item for a status, without a result.
    pub(crate) fn to_processed(&self) -> ProcessedItem {
        ProcessedItem {
            tenant: self.tenant.clone(),
            origin: self.origin.clone(),
            group: self.object.group.clone(),
            version: self.version.clone(),
            kind: self.object.kind.clone(),
            name: self.object.name.clone(),
            namespace: self.object.namespace.clone(),
            ..ProcessedItem::default()
        }
    }

    pub(crate) fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::gvk(&self.object.group, &self.version, &self.object.kind)
    }

    pub(crate) fn types(&self) -> TypeMeta {
        let gvk = self.gvk();
        TypeMeta { api_version: gvk.api_version(), kind: gvk.kind }
    }
}

/// An item and its object, which has no server-set metadata.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    pub(crate) key: ItemKey,
    pub(crate) object: Map<String, Value>,
}

/// Returns the field manager of an item. A hash, because the API server allows 128 characters.
///
/// `replication` is the kind, namespace, and name of the TenantResource or GlobalTenantResource.
pub(crate) fn field_manager(replication: &str, key: &ItemKey) -> String {
    let mut hash = Context::new(&SHA256);
    for part in [replication, &key.object.namespace, &key.tenant, &key.origin] {
        hash.update(&part.len().to_le_bytes());
        hash.update(part.as_bytes());
    }
    let hash = hash.finish();
    format!("{FIELD_MANAGER_PREFIX}{}", hex(hash.as_ref().iter().take(16)))
}

/// Returns bytes in hexadecimal digits.
pub(crate) fn hex<'b>(bytes: impl Iterator<Item = &'b u8>) -> String {
    bytes.fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Removes what an object of a spec must not contain: server-set metadata, the status, and the
/// labels of the controller.
pub(crate) fn sanitize(object: &mut Map<String, Value>) {
    object.remove("status");
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return };
    for field in SERVER_METADATA {
        metadata.remove(field);
    }
    remove_keys(metadata, "annotations", |key| key == LAST_APPLIED);
    remove_keys(metadata, "labels", |key| OWN_LABELS.contains(&key));
}

/// Prepares a copy of an existing object. `selector_keys` are the labels that selected it; with
/// them, the copy would be a source too.
pub(crate) fn sanitize_copy(object: &mut Map<String, Value>, selector_keys: &[String]) {
    sanitize(object);
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return };
    metadata.remove("ownerReferences");
    remove_keys(metadata, "labels", |key| selector_keys.iter().any(|other| other == key));
}

fn remove_keys(metadata: &mut Map<String, Value>, field: &str, is_removed: impl Fn(&str) -> bool) {
    if let Some(Value::Object(entries)) = metadata.get_mut(field) {
        entries.retain(|key, _| !is_removed(key));
        if entries.is_empty() {
            metadata.remove(field);
        }
    }
}

/// Adds labels or annotations. Existing ones are replaced; those of the controller are ignored.
pub(crate) fn add_metadata<'m>(
    object: &mut Map<String, Value>,
    field: &str,
    entries: impl IntoIterator<Item = (&'m String, &'m String)>,
) {
    let entries = entries.into_iter().filter(|(key, _)| !OWN_LABELS.contains(&key.as_str()));
    let entries: Vec<_> = entries.map(|(key, value)| (key.clone(), Value::from(value.clone()))).collect();
    if entries.is_empty() {
        return;
    }
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    let Some(metadata) = metadata.as_object_mut() else { return };
    let existing = metadata.entry(field).or_insert_with(|| json!({}));
    if existing.is_null() {
        *existing = json!({});
    }
    if let Some(existing) = existing.as_object_mut() {
        existing.extend(entries);
    }
}

/// Returns the configuration that is applied: the object of the item with the labels of the
/// controller.
///
/// The labels belong to the same apply, so no object exists without them, and they go with the
/// fields when the item is released.
pub(crate) fn configuration(
    item: &Item,
    is_created: bool,
    owner: Option<&OwnerReference>,
    uid: Option<&str>,
) -> Value {
    let mut object = item.object.clone();
    let types = item.key.types();
    object.insert("apiVersion".to_owned(), types.api_version.into());
    object.insert("kind".to_owned(), types.kind.into());
    let mut labels = Map::from_iter([(OBJECT_MANAGER_LABEL.to_owned(), REPLICATIONS.into())]);
    if is_created {
        labels.insert(CREATED_BY_LABEL.to_owned(), REPLICATIONS.into());
    }
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    if let Some(metadata) = metadata.as_object_mut() {
        identify(metadata, &item.key.object, uid);
        match metadata.get_mut("labels") {
            Some(Value::Object(existing)) => existing.extend(labels),
            _ => drop(metadata.insert("labels".to_owned(), labels.into())),
        }
        if let Some(owner) = owner.filter(|_| is_created) {
            let references = metadata.entry("ownerReferences").or_insert_with(|| json!([]));
            if let (Some(references), Ok(owner)) = (references.as_array_mut(), serde_json::to_value(owner)) {
                references.push(owner);
            }
        }
    }
    Value::Object(object)
}

/// Returns the configuration that releases all fields of an item.
pub(crate) fn release(key: &ItemKey, uid: &str) -> Value {
    let types = key.types();
    let mut metadata = Map::new();
    identify(&mut metadata, &key.object, Some(uid));
    json!({ "apiVersion": types.api_version, "kind": types.kind, "metadata": metadata })
}

/// Sets the identity. With the UID, the API server returns a conflict if the object was replaced.
fn identify(metadata: &mut Map<String, Value>, object: &ObjectId, uid: Option<&str>) {
    metadata.insert("name".to_owned(), object.name.clone().into());
    if object.namespace.is_empty() {
        metadata.remove("namespace");
    } else {
        metadata.insert("namespace".to_owned(), object.namespace.clone().into());
    }
    if let Some(uid) = uid {
        metadata.insert("uid".to_owned(), uid.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(origin: &str) -> ItemKey {
        ItemKey {
            object: ObjectId {
                group: String::new(),
                kind: "ConfigMap".to_owned(),
                namespace: "oil-dev".to_owned(),
                name: "a".to_owned(),
            },
            tenant: "oil".to_owned(),
            origin: origin.to_owned(),
            version: "v1".to_owned(),
        }
    }

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn field_managers_are_short_and_differ_in_every_part() {
        let base = field_manager("TenantResource oil/a", &key("0/raw-0"));
        assert!(base.len() < 128 && base.starts_with(FIELD_MANAGER_PREFIX));
        assert_eq!(base, field_manager("TenantResource oil/a", &key("0/raw-0")));
        let mut elsewhere = key("0/raw-0");
        elsewhere.object.namespace = "oil-prod".to_owned();
        let mut tenant = key("0/raw-0");
        tenant.tenant = "gas".to_owned();
        for other in [key("0/raw-1"), elsewhere, tenant] {
            assert_ne!(base, field_manager("TenantResource oil/a", &other));
        }
        assert_ne!(base, field_manager("TenantResource oil/b", &key("0/raw-0")));
    }

    #[test]
    fn copies_lose_selectors_owners_and_server_metadata() {
        let mut copy = map(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": { "a": "1" }, "status": { "x": 1 },
            "metadata": {
                "name": "a", "namespace": "b", "uid": "1", "resourceVersion": "2", "generation": 1,
                "creationTimestamp": "x", "managedFields": [{}], "finalizers": ["x"], "ownerReferences": [{}],
                "labels": { "copy": "true", "team": "a", CREATED_BY_LABEL: "x", OBJECT_MANAGER_LABEL: "y" },
                "annotations": { LAST_APPLIED: "{}", "note": "1" },
            },
        }));
        sanitize_copy(&mut copy, &["copy".to_owned()]);
        let metadata = json!({ "name": "a", "namespace": "b", "labels": { "team": "a" }, "annotations": { "note": "1" } });
        assert_eq!(copy.get("metadata"), Some(&metadata));
        assert_eq!(copy.get("status"), None);
        let mut odd = map(json!({ "metadata": "none" }));
        sanitize_copy(&mut odd, &[]);
        assert_eq!(odd, map(json!({ "metadata": "none" })));
    }

    #[test]
    fn additional_metadata_cannot_set_labels_of_the_controller() {
        let mut object = map(json!({ "metadata": { "labels": { "a": "1" } } }));
        let labels = [("a", "2"), (CREATED_BY_LABEL, "me"), (LEGACY_REPLICATION_LABEL, "x")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        add_metadata(&mut object, "labels", labels.iter().map(|(key, value)| (key, value)));
        assert_eq!(object, map(json!({ "metadata": { "labels": { "a": "2" } } })));
    }

    #[test]
    fn configuration_contains_labels_and_owner_of_created_objects() {
        let owner = OwnerReference { name: "g".to_owned(), uid: "9".to_owned(), ..OwnerReference::default() };
        let item = Item { key: key("0/raw-0"), object: map(json!({ "data": { "a": "1" } })) };
        let created = configuration(&item, true, Some(&owner), None);
        assert_eq!(created["metadata"]["labels"][CREATED_BY_LABEL], REPLICATIONS);
        assert_eq!(created["metadata"]["ownerReferences"][0]["uid"], "9");
        assert_eq!(created["metadata"]["namespace"], "oil-dev");
        let adopted = configuration(&item, false, Some(&owner), Some("7"));
        assert_eq!(
            adopted["metadata"],
            json!({
                "name": "a", "namespace": "oil-dev", "uid": "7", "labels": { OBJECT_MANAGER_LABEL: REPLICATIONS },
            })
        );
        assert_eq!(adopted["apiVersion"], "v1");
    }
}
