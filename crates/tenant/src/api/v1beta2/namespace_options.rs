//! What holds for the namespaces themselves.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::{AdditionalMetadata, ForbiddenList};
use crate::api::schema;

/// How many namespaces a Tenant may have, and what is written on them.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceOptions {
    /// The largest number of namespaces. Without it there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub quota: Option<i32>,

    /// Deprecated. Labels and annotations for every namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_metadata: Option<AdditionalMetadata>,

    /// Deprecated. Labels and annotations for the namespaces that a selector picks. An entry does not
    /// overwrite what an earlier one, or additionalMetadata, gives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub additional_metadata_list: Vec<SelectedMetadata>,

    /// Deprecated. Labels and annotations that a namespace must have, each with the pattern of its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_metadata: Option<RequiredMetadata>,

    /// Deprecated. Labels that the people of the Tenant may not set on namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forbidden_labels: Option<ForbiddenList>,

    /// Deprecated. Annotations that the people of the Tenant may not set on namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forbidden_annotations: Option<ForbiddenList>,

    /// Whether namespaces have no labels and annotations but those that the Tenant gives them.
    #[serde(default)]
    pub managed_metadata_only: bool,
}

/// Labels and annotations for some of the namespaces.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SelectedMetadata {
    /// The namespaces that get them; without it, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::strict)]
    pub namespace_selector: Option<LabelSelector>,

    /// The labels. `{{tenant.name}}` and `{{namespace}}` in a key or value stand for those names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,

    /// The annotations. `{{tenant.name}}` and `{{namespace}}` in a key or value stand for those names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// Labels and annotations that must be there.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequiredMetadata {
    /// The keys of labels, each with a pattern in RE2 syntax that its value must match.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = schema::patterns)]
    pub labels: BTreeMap<String, String>,

    /// The keys of annotations, each with a pattern in RE2 syntax that its value must match.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = schema::patterns)]
    pub annotations: BTreeMap<String, String>,
}
