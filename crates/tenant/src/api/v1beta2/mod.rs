//! `capsule.clastix.io/v1beta2`: the stored version of the Tenant.
//!
//! One file for each group of fields; this one has the object itself and its spec.

#![allow(
    unreachable_pub,
    reason = "kube's derive repeats each type inside a function, where `pub` reaches nobody"
)]

mod configuration;
mod gateway;
mod global_resource_quota;
mod ingress;
mod lists;
mod namespace_options;
mod owner;
mod policies;
mod role_binding;
mod rule_status;
mod rules;
mod service;
mod status;
mod tenant_owner;

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use self::owner::default_cluster_roles;
pub use self::{
    configuration::{
        CONFIGURATION_NAME, CapsuleConfiguration, CapsuleConfigurationSpec, CapsuleConfigurationStatus,
        DEFAULT_GROUP, NodeMetadata, RbacConfiguration, UserSpec,
    },
    gateway::GatewayOptions,
    global_resource_quota::{
        GlobalResourceQuota, GlobalResourceQuotaSpec, GlobalResourceQuotaStatus, NamespaceUsage, QuotaUsage,
    },
    ingress::{HostnameCollisionScope, IngressOptions},
    lists::{AdditionalMetadata, AllowedList, DefaultAllowedList, ForbiddenList, SelectorAllowedList},
    namespace_options::{NamespaceOptions, RequiredMetadata, SelectedMetadata},
    owner::{OwnerKind, OwnerSpec, Permissions, ProxyKind, ProxyOperation, ProxySettings},
    policies::{LimitRanges, NetworkPolicies, PodOptions, PullPolicy, QuotaScope, ResourceQuotas},
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
};
use super::schema;

/// What a Tenant grants to its owners and asks of their namespaces. Every field is optional.
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
    doc = "A Tenant is a group of namespaces that belong to the same people, with the limits that hold for them together.",
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Cordoned")].reason"#,
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
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#,
        description = "Whether everything is as the spec asks"
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
        description = "What is missing, if anything"
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
    /// Free data of any shape for templates; nothing else reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::anything")]
    pub data: Option<Value>,

    /// Who may create namespaces in the Tenant, and the cluster roles they get in each of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub owners: Vec<OwnerSpec>,

    /// Who else is an owner, beyond the list in owners.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,

    /// How many namespaces there may be, and what labels and annotations they get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_options: Option<NamespaceOptions>,

    /// The StorageClasses that volume claims may use, and the one for claims that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_classes: Option<DefaultAllowedList>,

    /// The PriorityClasses that pods may use, and the one for pods that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_classes: Option<DefaultAllowedList>,

    /// The RuntimeClasses that pods may use, and the one for pods that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_classes: Option<DefaultAllowedList>,

    /// The DeviceClasses that resource claims and their templates may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_classes: Option<SelectorAllowedList>,

    /// What Gateways may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_options: Option<GatewayOptions>,

    /// The classes and host names that Ingresses may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_options: Option<IngressOptions>,

    /// Labels of the nodes that pods of the Tenant run on. Each namespace gets them as an annotation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,

    /// RoleBindings that each namespace gets in addition to those of the owners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub additional_role_bindings: Vec<AdditionalRoleBinding>,

    /// While true, the people of the Tenant may change nothing in it.
    #[serde(default)]
    pub cordoned: bool,

    /// While true, a request to delete the Tenant is refused.
    #[serde(default)]
    pub prevent_deletion: bool,

    /// Whether the names of namespaces must begin with the name of the Tenant and a dash. Without it, the
    /// configuration decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force_tenant_prefix: Option<bool>,

    /// ResourceQuotas, for the Tenant as a whole or for each namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_quotas: Option<ResourceQuotas>,

    /// LimitRanges that each namespace gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ranges: Option<LimitRanges>,

    /// NetworkPolicies that each namespace gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_policies: Option<NetworkPolicies>,

    /// What Services may be, and the labels and annotations they get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_options: Option<ServiceOptions>,

    /// The labels and annotations that pods get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_options: Option<PodOptions>,

    /// The registries that images may come from. An image that names no registry is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_registries: Option<AllowedList>,

    /// The pull policies that containers may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3))]
    pub image_pull_policies: Vec<PullPolicy>,

    /// Rules for namespaces that a selector picks. Their shape is not final.
    // As they were written: fields that are not known here must survive a conversion.
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
    fn an_empty_spec_is_a_tenant() {
        let tenant: Tenant =
            serde_json::from_value(json!({ "metadata": { "name": "oil" }, "spec": {} })).unwrap();
        assert_eq!(tenant.spec, TenantSpec::default());
        let spec = schema()["properties"]["spec"].clone();
        assert_eq!(spec["required"], Value::Null);
    }

    #[test]
    fn a_status_is_read_whatever_is_missing_in_it() {
        let status: TenantStatus =
            serde_json::from_value(json!({ "size": 1, "spaces": [{ "name": "oil-dev" }] })).unwrap();
        assert_eq!((status.size, status.state, status.spaces.len()), (1, TenantState::Active, 1));
    }

    #[test]
    fn defaults_are_those_of_the_contract() {
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
