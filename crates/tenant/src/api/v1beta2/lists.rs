//! The lists of names and patterns that many fields share.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::api::schema::{IS_PATTERN, IS_PATTERN_MESSAGE};

/// Names that are allowed, one by one or by a pattern.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AllowedList {
    /// The names that are allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,

    /// Deprecated. A pattern in RE2 syntax; what it matches anywhere is allowed too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    #[x_kube(validation = Rule::new(IS_PATTERN).message(IS_PATTERN_MESSAGE))]
    pub allowed_regex: Option<String>,
}

/// Names that are allowed, one by one, by a pattern, or by the labels of the objects they name.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SelectorAllowedList {
    /// The names that are allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,

    /// Deprecated. A pattern in RE2 syntax; what it matches anywhere is allowed too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    #[x_kube(validation = Rule::new(IS_PATTERN).message(IS_PATTERN_MESSAGE))]
    pub allowed_regex: Option<String>,

    /// Objects with all of these labels are allowed too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<BTreeMap<String, String>>,

    /// Objects whose labels meet all of these requirements are allowed too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_expressions: Option<Vec<LabelSelectorRequirement>>,
}

/// Names that are allowed as in [`SelectorAllowedList`], and the one that is used where none is given.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DefaultAllowedList {
    /// The names that are allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,

    /// Deprecated. A pattern in RE2 syntax; what it matches anywhere is allowed too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    #[x_kube(validation = Rule::new(IS_PATTERN).message(IS_PATTERN_MESSAGE))]
    pub allowed_regex: Option<String>,

    /// Objects with all of these labels are allowed too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<BTreeMap<String, String>>,

    /// Objects whose labels meet all of these requirements are allowed too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_expressions: Option<Vec<LabelSelectorRequirement>>,

    /// The name that is filled in where none is given. It is allowed without being listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

/// Keys that may not be used, one by one or by a pattern.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForbiddenList {
    /// The keys that may not be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<String>,

    /// A pattern in RE2 syntax; keys that it matches anywhere may not be used either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    #[x_kube(validation = Rule::new(IS_PATTERN).message(IS_PATTERN_MESSAGE))]
    pub denied_regex: Option<String>,
}

/// Labels and annotations that are added to objects.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdditionalMetadata {
    /// The labels to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,

    /// The annotations to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl ForbiddenList {
    /// Returns whether the list forbids nothing. An empty pattern counts as absent.
    pub fn is_empty(&self) -> bool {
        self.denied.is_empty() && self.denied_regex.as_deref().unwrap_or_default().is_empty()
    }
}

impl AdditionalMetadata {
    /// Returns whether nothing is added.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty()
    }
}
