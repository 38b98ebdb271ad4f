//! `capsule.clastix.io/v1alpha1`: the first version of the Tenant, served by conversion.
//!
//! It has the shapes of its releases: the owner can be a plain name, and a list of classes can be a
//! plain list of names. Some settings are annotations, see the conversion.

#![allow(
    unreachable_pub,
    reason = "kube's derive generates each type inside a function, where `pub` has no effect"
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

/// TenantSpec defines the owner of a Tenant and what applies to its namespaces.
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
    doc = "Tenant is a group of namespaces with a common owner, limits, and policies.",
    printcolumn(
        name = "Namespace quota",
        type_ = "integer",
        json_path = ".spec.namespaceQuota",
        description = "Maximum number of namespaces"
    ),
    printcolumn(
        name = "Namespace count",
        type_ = "integer",
        json_path = ".status.size",
        description = "Number of namespaces"
    ),
    printcolumn(
        name = "Owner name",
        type_ = "string",
        json_path = ".spec.owner.name",
        description = "Name of the owner"
    ),
    printcolumn(
        name = "Owner kind",
        type_ = "string",
        json_path = ".spec.owner.kind",
        description = "Kind of the owner"
    ),
    printcolumn(
        name = "Node selector",
        type_ = "string",
        json_path = ".spec.nodeSelector",
        description = "Labels of the nodes for the Pods of the Tenant"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since the Tenant was created"
    ),
    validation = Rule::new(schema::IS_SHORT_NAME).message(schema::IS_SHORT_NAME_MESSAGE)
)]
#[serde(rename_all = "camelCase")]
pub struct TenantSpec {
    /// owner is the subject that may create namespaces in the Tenant: kind (User, Group, or
    /// ServiceAccount) and name, or the plain name of a user. With an empty name, the Tenant has no
    /// owner.
    #[schemars(schema_with = "schema::any_value")]
    pub owner: Owner,

    /// namespaceQuota is the maximum number of namespaces. If unset, the number is unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub namespace_quota: Option<i32>,

    /// namespacesMetadata contains labels and annotations for every namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces_metadata: Option<AdditionalMetadata>,

    /// servicesMetadata contains labels and annotations for every Service. Kubernetes copies the
    /// labels to its EndpointSlices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services_metadata: Option<AdditionalMetadata>,

    /// storageClasses lists the StorageClasses that PersistentVolumeClaims may use: names in
    /// allowed and a pattern in allowedRegex, or a plain list of names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::any_value")]
    pub storage_classes: Option<Classes>,

    /// ingressClasses lists the IngressClasses that Ingresses may use: names in allowed and a
    /// pattern in allowedRegex, or a plain list of names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::any_value")]
    pub ingress_classes: Option<Classes>,

    /// ingressHostnames lists the host names that Ingresses may use. If set, a rule without a host
    /// name is denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_hostnames: Option<AllowedList>,

    /// containerRegistries lists the registries of images. An image without a registry is denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_registries: Option<AllowedList>,

    /// nodeSelector contains labels of the nodes for the Pods of the Tenant. Each namespace gets it
    /// as an annotation. It takes effect if the API server runs the admission plugin
    /// PodNodeSelector.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,

    /// networkPolicies lists the NetworkPolicies of each namespace. Bits of a CIDR beyond its
    /// prefix are cleared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::strict)]
    pub network_policies: Vec<NetworkPolicySpec>,

    /// limitRanges lists the LimitRanges of each namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::strict)]
    pub limit_ranges: Vec<LimitRangeSpec>,

    /// resourceQuotas lists the ResourceQuotas of the Tenant as a whole. If the annotation
    /// `capsule.clastix.io/resource-quota-scope` is Namespace, they apply to each namespace
    /// separately.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::strict)]
    pub resource_quotas: Vec<ResourceQuotaSpec>,

    /// additionalRoleBindings lists RoleBindings of each namespace, in addition to those of the
    /// owner.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub additional_role_bindings: Vec<AdditionalRoleBinding>,

    /// externalServiceIPs lists the external IP addresses that Services may use.
    #[serde(default, rename = "externalServiceIPs", skip_serializing_if = "Option::is_none")]
    pub external_service_ips: Option<ExternalIps>,
}

/// AdditionalMetadata contains labels and annotations that are added to objects.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdditionalMetadata {
    /// additionalLabels are the labels to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub additional_labels: BTreeMap<String, String>,

    /// additionalAnnotations are the annotations to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub additional_annotations: BTreeMap<String, String>,
}

/// AdditionalRoleBinding is a RoleBinding of each namespace.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdditionalRoleBinding {
    /// clusterRoleName is the name of the ClusterRole to bind.
    #[schemars(length(min = 1))]
    pub cluster_role_name: String,

    /// subjects get the ClusterRole. A ServiceAccount without a namespace is that of the
    /// RoleBinding's namespace.
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = Rule::new(schema::ARE_SUBJECTS).message(schema::ARE_SUBJECTS_MESSAGE))]
    pub subjects: Vec<Subject>,
}

/// TenantStatus is the observed state of a Tenant.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["size"]))]
pub struct TenantStatus {
    /// size is the number of namespaces.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub size: i64,

    /// namespaces lists the names of the namespaces, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
}
