//! Lists of names and patterns that several fields share.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::api::schema::{IS_PATTERN, IS_PATTERN_MESSAGE};

/// AllowedList contains allowed names and a pattern.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AllowedList {
    /// allowed lists the allowed names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,

    /// allowedRegex is an unanchored pattern in RE2 syntax. Names that it matches are allowed too.
    /// Deprecated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    #[x_kube(validation = Rule::new(IS_PATTERN).message(IS_PATTERN_MESSAGE))]
    pub allowed_regex: Option<String>,
}

/// SelectorAllowedList contains allowed names, a pattern, and a label selector.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SelectorAllowedList {
    /// allowed lists the allowed names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,

    /// allowedRegex is an unanchored pattern in RE2 syntax. Names that it matches are allowed too.
    /// Deprecated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    #[x_kube(validation = Rule::new(IS_PATTERN).message(IS_PATTERN_MESSAGE))]
    pub allowed_regex: Option<String>,

    /// matchLabels allows objects that have all of these labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<BTreeMap<String, String>>,

    /// matchExpressions allows objects whose labels meet all of these requirements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_expressions: Option<Vec<LabelSelectorRequirement>>,
}

/// DefaultAllowedList contains allowed names, a pattern, a label selector, and a default.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DefaultAllowedList {
    /// allowed lists the allowed names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,

    /// allowedRegex is an unanchored pattern in RE2 syntax. Names that it matches are allowed too.
    /// Deprecated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    #[x_kube(validation = Rule::new(IS_PATTERN).message(IS_PATTERN_MESSAGE))]
    pub allowed_regex: Option<String>,

    /// matchLabels allows objects that have all of these labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<BTreeMap<String, String>>,

    /// matchExpressions allows objects whose labels meet all of these requirements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_expressions: Option<Vec<LabelSelectorRequirement>>,

    /// default is the name for objects that set none. It is allowed even if it is not listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

/// ForbiddenList contains forbidden keys and a pattern.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForbiddenList {
    /// denied lists the forbidden keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<String>,

    /// deniedRegex is an unanchored pattern in RE2 syntax. Keys that it matches are forbidden too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    #[x_kube(validation = Rule::new(IS_PATTERN).message(IS_PATTERN_MESSAGE))]
    pub denied_regex: Option<String>,
}

/// AdditionalMetadata contains labels and annotations that are added to objects.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdditionalMetadata {
    /// labels are the labels to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,

    /// annotations are the annotations to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl SelectorAllowedList {
    /// Returns whether the list allows objects by their labels.
    pub fn has_selector(&self) -> bool {
        selects(self.match_labels.as_ref(), self.match_expressions.as_deref())
    }
}

impl DefaultAllowedList {
    /// Returns whether the list allows objects by their labels.
    pub fn has_selector(&self) -> bool {
        selects(self.match_labels.as_ref(), self.match_expressions.as_deref())
    }
}

fn selects(
    labels: Option<&BTreeMap<String, String>>,
    expressions: Option<&[LabelSelectorRequirement]>,
) -> bool {
    labels.is_some_and(|labels| !labels.is_empty())
        || expressions.is_some_and(|expressions| !expressions.is_empty())
}

impl ForbiddenList {
    /// Returns whether the list forbids nothing. An empty pattern counts as unset.
    pub fn is_empty(&self) -> bool {
        self.denied.is_empty() && self.denied_regex.as_deref().unwrap_or_default().is_empty()
    }
}

impl AdditionalMetadata {
    /// Returns whether there is nothing to add.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty()
    }
}
