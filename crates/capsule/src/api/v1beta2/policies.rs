//! Policies and limits of each namespace.

use k8s_openapi::api::{
    core::v1::{LimitRangeSpec, ResourceQuotaSpec},
    networking::v1::NetworkPolicySpec,
};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::AdditionalMetadata;
use crate::api::schema;

/// ResourceQuotas contains the ResourceQuotas of a Tenant.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceQuotas {
    /// scope determines whether an item limits the Tenant as a whole or each namespace separately.
    #[serde(default)]
    pub scope: QuotaScope,

    /// items lists the quotas. The item at index n becomes the ResourceQuota `capsule-<tenant>-<n>`
    /// in each namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::strict)]
    pub items: Vec<ResourceQuotaSpec>,
}

/// QuotaScope is what a quota limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum QuotaScope {
    /// The Tenant as a whole.
    #[default]
    Tenant,
    /// Each namespace separately.
    Namespace,
}

/// LimitRanges contains the LimitRanges of a Tenant.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitRanges {
    /// items lists the LimitRanges. The item at index n becomes the LimitRange
    /// `capsule-<tenant>-<n>` in each namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::strict)]
    pub items: Vec<LimitRangeSpec>,
}

/// NetworkPolicies contains the NetworkPolicies of a Tenant.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPolicies {
    /// items lists the NetworkPolicies. The item at index n becomes the NetworkPolicy
    /// `capsule-<tenant>-<n>` in each namespace. Bits of a CIDR beyond its prefix are cleared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::strict)]
    pub items: Vec<NetworkPolicySpec>,
}

/// PodOptions defines labels and annotations of Pods.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodOptions {
    /// additionalMetadata contains labels and annotations for every Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_metadata: Option<AdditionalMetadata>,
}

/// PullPolicy determines when a node pulls the image of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum PullPolicy {
    /// At every start of the container.
    Always,
    /// Never.
    Never,
    /// If the node does not have the image.
    IfNotPresent,
}
