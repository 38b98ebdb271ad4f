//! Fields that `TenantResource` and `GlobalTenantResource` share.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::AdditionalMetadata;
use crate::api::schema;

/// Name of the Tenant in [`ProcessedItem`] of objects that are created once.
pub const NO_TENANT: &str = "None";

/// ReplicatedResources contains objects and the namespaces for them.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicatedResources {
    /// namespaceSelector selects namespaces of the Tenant by their labels. If unset, all namespaces
    /// of the Tenant are selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,

    /// namespacedItems lists existing objects that are copied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub namespaced_items: Vec<SourceReference>,

    /// rawItems lists objects. The tags {{tenant.name}} and {{namespace}} are replaced in their
    /// strings, and other tags are removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "raw_items")]
    pub raw_items: Vec<Value>,

    /// generators lists templates of objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub generators: Vec<Generator>,

    /// context defines existing objects that generators can use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<TemplateContext>,

    /// additionalMetadata contains labels and annotations for all objects. The tags of rawItems are
    /// replaced in keys and values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_metadata: Option<AdditionalMetadata>,
}

/// SourceReference identifies existing objects by name or labels.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceReference {
    /// apiVersion is the group and version of the objects, such as apps/v1. Empty means v1. A group
    /// without a version, such as apps, means its preferred version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    pub api_version: Option<String>,

    /// kind is the kind of the objects.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,

    /// name is the name of one object. If unset, selector selects the objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,

    /// namespace is the namespace of the objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub namespace: Option<String>,

    /// selector selects objects by their labels if name is unset. If both are unset, all objects in
    /// the namespace are selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,

    /// optional tolerates that the object with the name does not exist.
    #[serde(default = "default_true")]
    pub optional: bool,
}

/// Generator is a template of objects.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Generator {
    /// template is a Go template whose output is YAML or JSON: one object, or several documents.
    #[serde(default)]
    #[schemars(length(max = 262_144))]
    pub template: String,

    /// missingKey is invalid or zero to print a missing key as Go's templates do, or error to fail.
    #[serde(default)]
    pub missing_key: MissingKey,
}

/// MissingKey is the behavior of a template for a missing key.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MissingKey {
    /// Prints `<no value>`.
    Invalid,
    /// Prints `<no value>`.
    #[default]
    Zero,
    /// Fails.
    Error,
}

/// TemplateContext defines existing objects for templates.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateContext {
    /// resources lists the objects. Each entry is a list in the template.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub resources: Vec<ContextReference>,
}

/// ContextReference identifies existing objects for templates.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextReference {
    /// index is the name of the list in the template. If unset, it is the position of the entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub index: Option<String>,

    /// apiVersion is the group and version of the objects, such as apps/v1. Empty means v1. A group
    /// without a version, such as apps, means its preferred version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    pub api_version: Option<String>,

    /// kind is the kind of the objects.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,

    /// name is the name of one object. If unset, selector selects the objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,

    /// namespace is the namespace of the objects. If unset, it is the namespace that the template is
    /// rendered for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub namespace: Option<String>,

    /// selector selects objects by their labels if name is unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,

    /// optional tolerates that the object with the name does not exist.
    #[serde(default = "default_true")]
    pub optional: bool,
}

/// ProcessedItem is the state of one item on one object.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessedItem {
    /// tenant is the name of the Tenant, or None for objects that are created once.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tenant: String,

    /// origin is the place of the item in the spec, such as 0/raw-1 or 0/generator-0-2, or replica
    /// for a copy.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub origin: String,

    /// group is the API group of the object. Empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,

    /// version is the API version of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,

    /// kind is the kind of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,

    /// name is the name of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,

    /// namespace is the namespace of the object. Empty for a cluster-scoped object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,

    /// status is the result of the last attempt.
    #[serde(default)]
    pub status: ItemStatus,
}

/// ItemStatus is the result of the last attempt to apply or prune an item.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemStatus {
    /// type is Ready.
    #[serde(rename = "type")]
    pub type_: String,

    /// status is True, False, or Unknown.
    pub status: String,

    /// message explains the status.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,

    /// lastApply is the time of the last write of the item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_apply: Option<Time>,

    /// created tells that a replication created the object, so that it can be deleted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub created: bool,

    /// clusterScoped tells that the object has no namespace.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cluster_scoped: bool,
}

impl Default for ItemStatus {
    fn default() -> Self {
        Self {
            type_: "Ready".to_owned(),
            status: "Unknown".to_owned(),
            message: String::new(),
            last_apply: None,
            created: false,
            cluster_scoped: false,
        }
    }
}

impl From<&ContextReference> for SourceReference {
    fn from(reference: &ContextReference) -> Self {
        let ContextReference { index: _, api_version, kind, name, namespace, selector, optional } =
            reference.clone();
        Self { api_version, kind, name, namespace, selector, optional }
    }
}

/// Schema of [`ReplicatedResources::raw_items`].
fn raw_items(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let mut schema = schema::unstructured_objects(generator);
    schema.insert("maxItems".to_owned(), 500.into());
    schema
}

fn default_true() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}
