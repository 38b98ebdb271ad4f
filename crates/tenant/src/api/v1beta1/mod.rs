//! `capsule.clastix.io/v1beta1`: an older version of the Tenant, served through conversion.
//!
//! What the types have in common with `v1beta2` is the same type. What they say by annotations is in
//! [`conversion`](crate::conversion).

#![allow(
    unreachable_pub,
    reason = "kube's derive repeats each type inside a function, where `pub` reaches nobody"
)]

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    schema,
    v1beta2::{
        AdditionalMetadata, AdditionalRoleBinding, AllowedList, HostnameCollisionScope, LimitRanges,
        NetworkPolicies, OwnerKind, ProxySettings, PullPolicy, ResourceQuotas, ServiceOptions,
    },
};

/// What a Tenant grants to its owners and asks of their namespaces.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "capsule.clastix.io",
    version = "v1beta1",
    kind = "Tenant",
    plural = "tenants",
    singular = "tenant",
    shortname = "tnt",
    category = "ensemble",
    status = "TenantStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A Tenant is a group of namespaces that belong to the same people, with the limits that hold for them together.",
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".status.state",
        description = "Whether the Tenant is active or cordoned"
    ),
    printcolumn(
        name = "Namespace quota",
        type_ = "integer",
        json_path = ".spec.namespaceOptions.quota",
        description = "How many namespaces the Tenant may have"
    ),
    printcolumn(
        name = "Namespace count",
        type_ = "integer",
        json_path = ".status.size",
        description = "How many namespaces the Tenant has"
    ),
    printcolumn(
        name = "Node selector",
        type_ = "string",
        json_path = ".spec.nodeSelector",
        description = "The nodes that the pods of the Tenant run on"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Since when the Tenant exists"
    ),
    validation = Rule::new(schema::IS_SHORT_NAME).message(schema::IS_SHORT_NAME_MESSAGE)
)]
#[serde(rename_all = "camelCase")]
pub struct TenantSpec {
    /// Who may create namespaces in the Tenant.
    #[schemars(length(max = 256))]
    pub owners: Vec<OwnerSpec>,

    /// How many namespaces there may be, and what labels and annotations they get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_options: Option<NamespaceOptions>,

    /// What Services may be, and the labels and annotations they get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_options: Option<ServiceOptions>,

    /// The StorageClasses that volume claims may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_classes: Option<AllowedList>,

    /// The classes and host names that Ingresses may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_options: Option<IngressOptions>,

    /// The registries that images may come from. An image that names no registry is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_registries: Option<AllowedList>,

    /// Labels of the nodes that pods of the Tenant run on. Each namespace gets them as an annotation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,

    /// NetworkPolicies that each namespace gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_policies: Option<NetworkPolicies>,

    /// LimitRanges that each namespace gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ranges: Option<LimitRanges>,

    /// ResourceQuotas, for the Tenant as a whole or for each namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_quotas: Option<ResourceQuotas>,

    /// RoleBindings that each namespace gets in addition to those of the owners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub additional_role_bindings: Vec<AdditionalRoleBinding>,

    /// The pull policies that containers may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3))]
    pub image_pull_policies: Vec<PullPolicy>,

    /// The PriorityClasses that pods may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_classes: Option<AllowedList>,
}

/// One owner of a Tenant. The annotation `clusterrolenames.capsule.clastix.io/<kind>.<name>` of the Tenant lists the
/// cluster roles of an owner who is to have others than the usual ones.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[x_kube(
    validation = Rule::new(schema::IS_ACCOUNT_NAME).message(schema::IS_ACCOUNT_NAME_MESSAGE).field_path(".name")
)]
#[serde(rename_all = "camelCase")]
pub struct OwnerSpec {
    /// What the name is the name of.
    pub kind: OwnerKind,

    /// The name as the API server knows it after authentication; for a ServiceAccount,
    /// `system:serviceaccount:<namespace>:<name>`.
    #[schemars(length(min = 1, max = 1024))]
    pub name: String,

    /// What the owner may see and do through a proxy that filters cluster-wide lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub proxy_settings: Vec<ProxySettings>,
}

/// How many namespaces a Tenant may have, and what is written on them.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceOptions {
    /// The largest number of namespaces. Without it there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub quota: Option<i32>,

    /// Labels and annotations for every namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_metadata: Option<AdditionalMetadata>,
}

/// The classes and host names that Ingresses may use.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressOptions {
    /// The IngressClasses that Ingresses may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_classes: Option<AllowedList>,

    /// Among which Ingresses a pair of host name and path may be used once only.
    #[serde(default)]
    pub hostname_collision_scope: HostnameCollisionScope,

    /// The host names that rules may use. With it, a rule without a host name is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_hostnames: Option<AllowedList>,
}

/// What the controller found.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["state", "size"]))]
pub struct TenantStatus {
    /// Whether the Tenant is in use or cordoned.
    #[serde(default)]
    pub state: TenantState,

    /// How many namespaces the Tenant has.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub size: i64,

    /// The names of the namespaces, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
}

/// Whether a Tenant is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum TenantState {
    /// It is in use.
    #[default]
    Active,
    /// Its people may change nothing.
    Cordoned,
}
