//! What each namespace gets, and what its pods may be.

use k8s_openapi::api::{
    core::v1::{LimitRangeSpec, ResourceQuotaSpec},
    networking::v1::NetworkPolicySpec,
};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::AdditionalMetadata;
use crate::api::schema;

/// The ResourceQuotas of a Tenant.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceQuotas {
    /// Whether an item limits all namespaces of the Tenant together, or each of them alone.
    #[serde(default)]
    pub scope: QuotaScope,

    /// The quotas. The item at index n becomes the ResourceQuota `capsule-<tenant>-<n>` in each namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::strict)]
    pub items: Vec<ResourceQuotaSpec>,
}

/// What a quota limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum QuotaScope {
    /// All namespaces of the Tenant together.
    #[default]
    Tenant,
    /// Each namespace alone.
    Namespace,
}

/// The LimitRanges of a Tenant.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitRanges {
    /// The item at index n becomes the LimitRange `capsule-<tenant>-<n>` in each namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::strict)]
    pub items: Vec<LimitRangeSpec>,
}

/// The NetworkPolicies of a Tenant.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPolicies {
    /// The item at index n becomes the NetworkPolicy `capsule-<tenant>-<n>` in each namespace. A CIDR with
    /// bits beyond its prefix is made canonical there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::strict)]
    pub items: Vec<NetworkPolicySpec>,
}

/// What pods get.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodOptions {
    /// Labels and annotations for every pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_metadata: Option<AdditionalMetadata>,
}

/// When a node pulls the image of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum PullPolicy {
    /// At every start.
    Always,
    /// Not at all.
    Never,
    /// When the node has it not.
    IfNotPresent,
}
