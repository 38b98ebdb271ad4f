//! Options of the namespaces of a Tenant.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::{AdditionalMetadata, ForbiddenList};
use crate::api::schema;

/// NamespaceOptions limits the number of namespaces and defines their labels and annotations.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceOptions {
    /// quota is the maximum number of namespaces. If unset, the number is unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub quota: Option<i32>,

    /// additionalMetadata contains labels and annotations for every namespace. Deprecated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_metadata: Option<AdditionalMetadata>,

    /// additionalMetadataList contains labels and annotations for selected namespaces. Keys of
    /// additionalMetadata and of earlier entries take precedence. Deprecated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub additional_metadata_list: Vec<SelectedMetadata>,

    /// requiredMetadata contains labels and annotations that a namespace must have, with patterns
    /// of their values. Deprecated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_metadata: Option<RequiredMetadata>,

    /// forbiddenLabels lists labels of namespaces that users of the Tenant cannot set. Deprecated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forbidden_labels: Option<ForbiddenList>,

    /// forbiddenAnnotations lists annotations of namespaces that users of the Tenant cannot set.
    /// Deprecated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forbidden_annotations: Option<ForbiddenList>,

    /// managedMetadataOnly allows only those labels and annotations of namespaces that the Tenant
    /// defines.
    #[serde(default)]
    pub managed_metadata_only: bool,
}

/// SelectedMetadata contains labels and annotations for selected namespaces.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SelectedMetadata {
    /// namespaceSelector selects the namespaces. If unset, it selects all namespaces of the Tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::strict)]
    pub namespace_selector: Option<LabelSelector>,

    /// labels are the labels to add. `{{tenant.name}}` and `{{namespace}}` in keys and values are
    /// replaced.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,

    /// annotations are the annotations to add. `{{tenant.name}}` and `{{namespace}}` in keys and
    /// values are replaced.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// RequiredMetadata contains required labels and annotations.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequiredMetadata {
    /// labels maps each label key to a pattern in RE2 syntax that its value must match.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = schema::patterns)]
    pub labels: BTreeMap<String, String>,

    /// annotations maps each annotation key to a pattern in RE2 syntax that its value must match.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = schema::patterns)]
    pub annotations: BTreeMap<String, String>,
}
