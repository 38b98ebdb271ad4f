//! `capsule.clastix.io/v1beta1`: an older version of the Tenant, served by conversion.
//!
//! Types that equal those of `v1beta2` are shared. Some settings are annotations, see
//! the conversion.

#![allow(
    unreachable_pub,
    reason = "kube's derive generates each type inside a function, where `pub` has no effect"
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

/// TenantSpec defines the owners of a Tenant and what applies to its namespaces.
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
    doc = "Tenant is a group of namespaces with common owners, limits, and policies.",
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".status.state",
        description = "State of the Tenant: Active or Cordoned"
    ),
    printcolumn(
        name = "Namespace quota",
        type_ = "integer",
        json_path = ".spec.namespaceOptions.quota",
        description = "Maximum number of namespaces"
    ),
    printcolumn(
        name = "Namespace count",
        type_ = "integer",
        json_path = ".status.size",
        description = "Number of namespaces"
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
    /// owners lists the subjects that may create namespaces in the Tenant.
    #[schemars(length(max = 256))]
    pub owners: Vec<OwnerSpec>,

    /// namespaceOptions limits the number of namespaces and defines their labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_options: Option<NamespaceOptions>,

    /// serviceOptions restricts Services and defines their labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_options: Option<ServiceOptions>,

    /// storageClasses lists the StorageClasses that PersistentVolumeClaims may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_classes: Option<AllowedList>,

    /// ingressOptions lists the IngressClasses and host names that Ingresses may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_options: Option<IngressOptions>,

    /// containerRegistries lists the registries of images. An image without a registry is denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_registries: Option<AllowedList>,

    /// nodeSelector contains labels of the nodes for the Pods of the Tenant. Each namespace gets it
    /// as an annotation. It takes effect if the API server runs the admission plugin
    /// PodNodeSelector.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,

    /// networkPolicies defines the NetworkPolicies of each namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_policies: Option<NetworkPolicies>,

    /// limitRanges defines the LimitRanges of each namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ranges: Option<LimitRanges>,

    /// resourceQuotas defines ResourceQuotas for the Tenant as a whole or for each namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_quotas: Option<ResourceQuotas>,

    /// additionalRoleBindings lists RoleBindings of each namespace, in addition to those of the
    /// owners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub additional_role_bindings: Vec<AdditionalRoleBinding>,

    /// imagePullPolicies lists the image pull policies that containers may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3))]
    pub image_pull_policies: Vec<PullPolicy>,

    /// priorityClasses lists the PriorityClasses that Pods may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_classes: Option<AllowedList>,
}

/// OwnerSpec is one owner of a Tenant. The annotation
/// `clusterrolenames.capsule.clastix.io/<kind>.<name>` of the Tenant lists the ClusterRoles of an
/// owner that differ from the default ones.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[x_kube(
    validation = Rule::new(schema::IS_ACCOUNT_NAME).message(schema::IS_ACCOUNT_NAME_MESSAGE).field_path(".name")
)]
#[serde(rename_all = "camelCase")]
pub struct OwnerSpec {
    /// kind is the kind of the owner: User, Group, or ServiceAccount.
    pub kind: OwnerKind,

    /// name is the name of the owner after authentication. For a ServiceAccount, it is
    /// `system:serviceaccount:<namespace>:<name>`.
    #[schemars(length(min = 1, max = 1024))]
    pub name: String,

    /// proxySettings lists what the owner may do through a proxy that filters cluster-wide lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub proxy_settings: Vec<ProxySettings>,
}

/// NamespaceOptions limits the number of namespaces and defines their labels and annotations.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceOptions {
    /// quota is the maximum number of namespaces. If unset, the number is unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub quota: Option<i32>,

    /// additionalMetadata contains labels and annotations for every namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_metadata: Option<AdditionalMetadata>,
}

/// IngressOptions lists the IngressClasses and host names that Ingresses may use.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressOptions {
    /// allowedClasses lists the IngressClasses that Ingresses may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_classes: Option<AllowedList>,

    /// hostnameCollisionScope is the scope in which a pair of host name and path must be unique.
    #[serde(default)]
    pub hostname_collision_scope: HostnameCollisionScope,

    /// allowedHostnames lists the host names that rules may use. If set, a rule without a host name
    /// is denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_hostnames: Option<AllowedList>,
}

/// TenantStatus is the observed state of a Tenant.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["state", "size"]))]
pub struct TenantStatus {
    /// state is Active or Cordoned.
    #[serde(default)]
    pub state: TenantState,

    /// size is the number of namespaces.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub size: i64,

    /// namespaces lists the names of the namespaces, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
}

/// TenantState is the state of a Tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum TenantState {
    /// The Tenant is in use.
    #[default]
    Active,
    /// The users of the Tenant cannot change anything.
    Cordoned,
}
