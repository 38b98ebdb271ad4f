//! `capsule.clastix.io/v1alpha1`: the Tenant of 2020, served through conversion.
//!
//! It is served in the shapes that it had over time: the owner may be a plain name, and a list of classes may be a
//! plain list of names. What it says by annotations is in [`conversion`](crate::conversion).

#![allow(
    unreachable_pub,
    reason = "kube's derive repeats each type inside a function, where `pub` reaches nobody"
)]

mod shapes;

use std::collections::BTreeMap;

use k8s_openapi::api::{
    core::v1::{LimitRangeSpec, ResourceQuotaSpec},
    networking::v1::NetworkPolicySpec,
    rbac::v1::Subject,
};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

pub use self::shapes::{Classes, Owner, OwnerSpec};
use super::{
    schema,
    v1beta2::{AllowedList, ExternalIps},
};

/// What a Tenant grants to its owner and asks of the namespaces.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "capsule.clastix.io",
    version = "v1alpha1",
    kind = "Tenant",
    plural = "tenants",
    singular = "tenant",
    shortname = "tnt",
    category = "ensemble",
    status = "TenantStatus",
    derive = "PartialEq",
    derive = "Default",
    deprecated = "capsule.clastix.io/v1alpha1 Tenant is deprecated; use capsule.clastix.io/v1beta2 Tenant",
    doc = "A Tenant is a group of namespaces that belong to the same people, with the limits that hold for them together.",
    printcolumn(
        name = "Namespace quota",
        type_ = "integer",
        json_path = ".spec.namespaceQuota",
        description = "How many namespaces the Tenant may have"
    ),
    printcolumn(
        name = "Namespace count",
        type_ = "integer",
        json_path = ".status.size",
        description = "How many namespaces the Tenant has"
    ),
    printcolumn(
        name = "Owner name",
        type_ = "string",
        json_path = ".spec.owner.name",
        description = "Who owns the Tenant"
    ),
    printcolumn(
        name = "Owner kind",
        type_ = "string",
        json_path = ".spec.owner.kind",
        description = "What the owner's name is the name of"
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
    /// Who may create namespaces in the Tenant: kind (User, Group or ServiceAccount) and name, or the plain name of
    /// a user. An empty name stands for nobody.
    #[schemars(schema_with = "schema::either")]
    pub owner: Owner,

    /// The largest number of namespaces. Without it there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub namespace_quota: Option<i32>,

    /// Labels and annotations for every namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces_metadata: Option<AdditionalMetadata>,

    /// Labels and annotations for every Service. Kubernetes hands the labels on to its EndpointSlices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services_metadata: Option<AdditionalMetadata>,

    /// The StorageClasses that volume claims may use: names in allowed and a pattern in allowedRegex, or a plain
    /// list of names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::either")]
    pub storage_classes: Option<Classes>,

    /// The IngressClasses that Ingresses may use: names in allowed and a pattern in allowedRegex, or a plain list of
    /// names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::either")]
    pub ingress_classes: Option<Classes>,

    /// The host names that Ingresses may use. With it, a rule without a host name is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_hostnames: Option<AllowedList>,

    /// The registries that images may come from. An image that names no registry is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_registries: Option<AllowedList>,

    /// Labels of the nodes that pods of the Tenant run on. Each namespace gets them as an annotation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,

    /// NetworkPolicies that each namespace gets. A CIDR with bits beyond its prefix is made canonical there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::strict)]
    pub network_policies: Vec<NetworkPolicySpec>,

    /// LimitRanges that each namespace gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::strict)]
    pub limit_ranges: Vec<LimitRangeSpec>,

    /// ResourceQuotas, for the Tenant as a whole, or for each namespace if the annotation
    /// `capsule.clastix.io/resource-quota-scope` says Namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::strict)]
    pub resource_quotas: Vec<ResourceQuotaSpec>,

    /// RoleBindings that each namespace gets in addition to those of the owners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub additional_role_bindings: Vec<AdditionalRoleBinding>,

    /// The external addresses that Services may use.
    #[serde(default, rename = "externalServiceIPs", skip_serializing_if = "Option::is_none")]
    pub external_service_ips: Option<ExternalIps>,
}

/// Labels and annotations that are added to objects.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdditionalMetadata {
    /// The labels to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub additional_labels: BTreeMap<String, String>,

    /// The annotations to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub additional_annotations: BTreeMap<String, String>,
}

/// A RoleBinding that each namespace gets.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdditionalRoleBinding {
    /// The cluster role to give.
    #[schemars(length(min = 1))]
    pub cluster_role_name: String,

    /// Who gets it. A ServiceAccount without a namespace is the one of that name in each namespace.
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = Rule::new(schema::ARE_SUBJECTS).message(schema::ARE_SUBJECTS_MESSAGE))]
    pub subjects: Vec<Subject>,
}

/// What the controller found.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["size"]))]
pub struct TenantStatus {
    /// How many namespaces the Tenant has.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub size: i64,

    /// The names of the namespaces, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
}
