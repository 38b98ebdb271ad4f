//! `GlobalResourceQuota`: a quota that several namespaces share.

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

/// GlobalResourceQuotaSpec defines a quota and the namespaces that share it.
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
    doc = "GlobalResourceQuota is a quota that several namespaces share. This version of the manager does not enforce it.",
    printcolumn(
        name = "Namespaces",
        type_ = "integer",
        json_path = ".status.namespaceCount",
        description = "Number of namespaces that share the quota"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#,
        description = "Status of the condition Ready"
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
        description = "Message of the condition Ready"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since the GlobalResourceQuota was created"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct GlobalResourceQuotaSpec {
    /// namespaceSelectors select the namespaces that share the quota. A namespace must match one of
    /// them. An empty selector matches all namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::strict)]
    pub namespace_selectors: Vec<LabelSelector>,

    /// quota limits the total usage of the namespaces.
    #[schemars(transform = schema::strict)]
    pub quota: ResourceQuotaSpec,
}

/// GlobalResourceQuotaStatus is the observed usage of the quota.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GlobalResourceQuotaStatus {
    /// observedGeneration is the generation of the spec that the status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// namespaceCount is the number of namespaces that share the quota.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub namespace_count: i64,

    /// namespaces lists the names of the namespaces, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,

    /// total is the usage of all namespaces together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<QuotaUsage>,

    /// namespaceUsage is the usage of each namespace, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub namespace_usage: BTreeMap<String, NamespaceUsage>,

    /// conditions contains the conditions of the quota. Ready reports whether it is in effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// QuotaUsage contains limits and usage.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaUsage {
    /// hard contains the limits by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hard: BTreeMap<String, Quantity>,

    /// used contains the usage by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub used: BTreeMap<String, Quantity>,

    /// available contains the remainder by resource. It is never negative.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub available: BTreeMap<String, Quantity>,
}

/// NamespaceUsage is the usage of one namespace.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceUsage {
    /// used contains the usage by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub used: BTreeMap<String, Quantity>,
}
