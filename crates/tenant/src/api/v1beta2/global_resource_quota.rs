//! `GlobalResourceQuota`: one quota for several namespaces together.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::ResourceQuotaSpec,
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{Condition, LabelSelector},
    },
};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::api::schema;

/// One quota, and the namespaces that share it.
#[allow(clippy::duplicated_attributes, reason = "several columns are of one type")]
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "capsule.clastix.io",
    version = "v1beta2",
    kind = "GlobalResourceQuota",
    plural = "globalresourcequotas",
    singular = "globalresourcequota",
    shortname = "globalquota",
    shortname = "grq",
    category = "ensemble",
    status = "GlobalResourceQuotaStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A GlobalResourceQuota is one quota that several namespaces share. This version of the manager does nothing with it.",
    printcolumn(
        name = "Namespaces",
        type_ = "integer",
        json_path = ".status.namespaceCount",
        description = "How many namespaces share the quota"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#,
        description = "Whether the quota is in effect"
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
        description = "What is wrong, if anything"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Since when the GlobalResourceQuota exists"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct GlobalResourceQuotaSpec {
    /// The namespaces that any of these selectors picks share the quota. An empty selector picks all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::strict)]
    pub namespace_selectors: Vec<LabelSelector>,

    /// What the namespaces may use together.
    #[schemars(transform = schema::strict)]
    pub quota: ResourceQuotaSpec,
}

/// How much of the quota is used.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GlobalResourceQuotaStatus {
    /// The generation of the spec that the rest of the status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// How many namespaces share the quota.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub namespace_count: i64,

    /// The names of the namespaces, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,

    /// What all of them use together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<QuotaUsage>,

    /// What each namespace uses, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub namespace_usage: BTreeMap<String, NamespaceUsage>,

    /// How the quota is; Ready says whether it is in effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// What is used of what there is.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaUsage {
    /// The limits, by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hard: BTreeMap<String, Quantity>,

    /// What is used, by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub used: BTreeMap<String, Quantity>,

    /// What is left, by resource; never less than nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub available: BTreeMap<String, Quantity>,
}

/// What one namespace uses.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceUsage {
    /// What is used, by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub used: BTreeMap<String, Quantity>,
}
