//! `capsule.clastix.io/v1beta2`: the stored version of the Tenant.
//!
//! This module contains the Tenant and its spec. Each submodule contains one group of fields or
//! another kind.

#![allow(
    unreachable_pub,
    reason = "kube's derive generates each type inside a function, where `pub` has no effect"
)]

mod configuration;
mod gateway;
mod global_resource_quota;
mod impersonation;
mod ingress;
mod lists;
mod namespace_options;
mod owner;
mod policies;
mod replication;
mod role_binding;
mod rule_status;
mod rules;
mod service;
mod status;
mod tenant_owner;
mod tenant_resource;

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::owner::default_cluster_roles;
pub use self::{
    configuration::{
        CONFIGURATION_NAME, CapsuleConfiguration, CapsuleConfigurationSpec, CapsuleConfigurationStatus,
        DEFAULT_GROUP, NodeMetadata, RbacConfiguration, Route, RouteReservation, UserSpec,
    },
    gateway::GatewayOptions,
    global_resource_quota::{
        GlobalResourceQuota, GlobalResourceQuotaSpec, GlobalResourceQuotaStatus, NamespaceUsage, QuotaUsage,
    },
    impersonation::{Impersonation, InvalidEndpoint, SecretKey},
    ingress::{HostnameCollisionScope, IngressOptions},
    lists::{AdditionalMetadata, AllowedList, DefaultAllowedList, ForbiddenList, SelectorAllowedList},
    namespace_options::{NamespaceOptions, RequiredMetadata, SelectedMetadata},
    owner::{OwnerKind, OwnerSpec, Permissions, ProxyKind, ProxyOperation, ProxySettings},
    policies::{LimitRanges, NetworkPolicies, PodOptions, PullPolicy, QuotaScope, ResourceQuotas},
    replication::{
        ContextReference, Generator, ItemStatus, MissingKey, NO_TENANT, ProcessedItem, ReplicatedResources,
        SourceReference, TemplateContext,
    },
    role_binding::AdditionalRoleBinding,
    rule_status::{RuleBody, RuleStatus, RuleStatusSpec, RuleStatusStatus},
    rules::{
        Action, Audience, AudienceKind, Enforcement, ExternalNameRules, IngressRules, LoadBalancerRules,
        NamedQuota, NamespaceRule, NodePortRange, NodePortRules, RulePermissions, ServiceRules,
        WorkloadRules,
    },
    service::{AllowedServices, ExternalIps, ServiceOptions},
    status::{
        AvailableClasses, Metadata, OwnerStatus, PromotionStatus, Reservation, Space, SpaceEnforcement,
        TenantState, TenantStatus,
    },
    tenant_owner::{TenantOwner, TenantOwnerSpec, TenantOwnerStatus},
    tenant_resource::{
        DEFAULT_RESYNC_PERIOD, Dependency, GlobalTenantResource, GlobalTenantResourceSpec,
        GlobalTenantResourceStatus, LocalServiceAccount, ReplicationScope, ReplicationSettings,
        ServiceAccountReference, TenantResource, TenantResourceSpec, TenantResourceStatus,
    },
};
use super::schema;

/// TenantSpec defines the owners of a Tenant and what applies to its namespaces. Every field is
/// optional.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "capsule.clastix.io",
    version = "v1beta2",
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
        json_path = r#".status.conditions[?(@.type=="Cordoned")].reason"#,
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
        description = "Time since the Tenant was created"
    ),
    validation = Rule::new(schema::IS_SHORT_NAME).message(schema::IS_SHORT_NAME_MESSAGE)
)]
#[serde(rename_all = "camelCase")]
pub struct TenantSpec {
    /// data contains free data for templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::any_value")]
    pub data: Option<Value>,

    /// owners lists the subjects that may create namespaces in the Tenant, and their ClusterRoles
    /// in them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub owners: Vec<OwnerSpec>,

    /// permissions selects further owners.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,

    /// namespaceOptions limits the number of namespaces and defines their labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_options: Option<NamespaceOptions>,

    /// storageClasses lists the StorageClasses that PersistentVolumeClaims may use, and the default
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_classes: Option<DefaultAllowedList>,

    /// priorityClasses lists the PriorityClasses that Pods may use, and the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_classes: Option<DefaultAllowedList>,

    /// runtimeClasses lists the RuntimeClasses that Pods may use, and the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_classes: Option<DefaultAllowedList>,

    /// deviceClasses lists the DeviceClasses that ResourceClaims and ResourceClaimTemplates may
    /// use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_classes: Option<SelectorAllowedList>,

    /// gatewayOptions restricts Gateways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_options: Option<GatewayOptions>,

    /// ingressOptions restricts the IngressClasses and host names of Ingresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_options: Option<IngressOptions>,

    /// nodeSelector contains labels of the nodes for the Pods of the Tenant. Each namespace gets it
    /// as an annotation. It takes effect if the API server runs the admission plugin
    /// PodNodeSelector.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,

    /// additionalRoleBindings lists RoleBindings of each namespace, in addition to those of the
    /// owners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub additional_role_bindings: Vec<AdditionalRoleBinding>,

    /// cordoned prevents changes by the users of the Tenant.
    #[serde(default)]
    pub cordoned: bool,

    /// preventDeletion denies the deletion of the Tenant.
    #[serde(default)]
    pub prevent_deletion: bool,

    /// forceTenantPrefix requires that the name of a namespace begins with the name of the Tenant
    /// and a dash. If unset, the configuration applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force_tenant_prefix: Option<bool>,

    /// resourceQuotas defines ResourceQuotas for the Tenant as a whole or for each namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_quotas: Option<ResourceQuotas>,

    /// limitRanges defines the LimitRanges of each namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ranges: Option<LimitRanges>,

    /// networkPolicies defines the NetworkPolicies of each namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_policies: Option<NetworkPolicies>,

    /// serviceOptions restricts Services and defines their labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_options: Option<ServiceOptions>,

    /// podOptions defines labels and annotations of Pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_options: Option<PodOptions>,

    /// containerRegistries lists the registries of images. An image without a registry is denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_registries: Option<AllowedList>,

    /// imagePullPolicies lists the image pull policies that containers may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3))]
    pub image_pull_policies: Vec<PullPolicy>,

    /// rules lists rules for selected namespaces. Their schema is not final.
    // Raw values, because a conversion must preserve unknown fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<NamespaceRule>", length(max = 64))]
    pub rules: Vec<Value>,
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        let crd = serde_json::to_value(Tenant::crd()).unwrap();
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
    }

    #[test]
    fn empty_spec_is_valid() {
        let tenant: Tenant =
            serde_json::from_value(json!({ "metadata": { "name": "oil" }, "spec": {} })).unwrap();
        assert_eq!(tenant.spec, TenantSpec::default());
        let spec = schema()["properties"]["spec"].clone();
        assert_eq!(spec["required"], Value::Null);
    }

    #[test]
    fn status_with_missing_fields_is_readable() {
        let status: TenantStatus =
            serde_json::from_value(json!({ "size": 1, "spaces": [{ "name": "oil-dev" }] })).unwrap();
        assert_eq!((status.size, status.state, status.spaces.len()), (1, TenantState::Active, 1));
    }

    #[test]
    fn defaults_equal_those_of_capsule() {
        let default = |path: &str| schema().pointer(path).cloned().unwrap_or_default();
        let spec = "/properties/spec/properties";
        assert_eq!(
            default(&format!("{spec}/owners/items/properties/clusterRoles/default")),
            json!(["admin", "capsule-namespace-deleter"])
        );
        assert_eq!(default(&format!("{spec}/resourceQuotas/properties/scope/default")), "Tenant");
        assert_eq!(
            default(&format!("{spec}/ingressOptions/properties/hostnameCollisionScope/default")),
            "Disabled"
        );
        assert_eq!(default(&format!("{spec}/permissions/properties/allowOwnerPromotion/default")), true);
        assert_eq!(default("/properties/status/properties/state/default"), "Active");
    }
}
