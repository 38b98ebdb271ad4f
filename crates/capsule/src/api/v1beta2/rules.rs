//! Rules for selected namespaces.
//!
//! Capsule does not consider the schema final, so objects preserve unknown fields.

use k8s_openapi::{api::core::v1::ResourceQuotaSpec, apimachinery::pkg::apis::meta::v1::LabelSelector};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::AdditionalRoleBinding;
use crate::api::schema;

/// NamespaceRule is a rule for some namespaces of a Tenant and some subjects.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceRule {
    /// namespaceSelector selects the namespaces. If unset, it selects all namespaces of the Tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::strict)]
    pub namespace_selector: Option<LabelSelector>,

    /// audience lists the subjects whose requests the rule applies to. If empty, it applies to all
    /// requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub audience: Vec<Audience>,

    /// quota lists quotas that the selected namespaces share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub quota: Vec<NamedQuota>,

    /// enforce restricts what requests can contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforce: Option<Enforcement>,

    /// permissions grants permissions in the selected namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<RulePermissions>,
}

/// Audience identifies subjects that a rule applies to.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Audience {
    /// kind is the kind of the subject: User, Group, ServiceAccount, or Custom.
    pub kind: AudienceKind,

    /// name is the name of the subject. For the kind Custom, it is CapsuleUser, Administrator,
    /// TenantOwner, or Controller.
    #[schemars(length(min = 1, max = 1024))]
    pub name: String,
}

/// AudienceKind is the kind of subjects that a rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum AudienceKind {
    /// A user.
    User,
    /// All members of a group.
    Group,
    /// A ServiceAccount.
    ServiceAccount,
    /// All subjects with a role of the Tenant.
    Custom,
}

/// NamedQuota is a quota that namespaces share.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedQuota {
    /// name identifies the quota within the rule.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,

    /// Limits of the quota.
    #[serde(flatten)]
    #[schemars(transform = schema::strict)]
    pub spec: ResourceQuotaSpec,
}

/// Enforcement restricts what requests can contain.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct Enforcement {
    /// action is applied to requests that match.
    #[serde(default)]
    pub action: Action,

    /// workloads restricts Pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workloads: Option<WorkloadRules>,

    /// services restricts Services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<ServiceRules>,

    /// metadata restricts labels and annotations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::unstructured_objects")]
    pub metadata: Vec<Value>,

    /// ingress restricts the host names of Ingresses and Gateways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<IngressRules>,
}

/// Action is applied to requests that match a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// The request is allowed.
    Allow,
    /// The request is denied.
    #[default]
    Deny,
    /// The request is allowed, and an Event is recorded.
    Audit,
}

/// WorkloadRules restricts Pods.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct WorkloadRules {
    /// targets lists the parts of a Pod to which the rule applies, such as `pod/containers`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,

    /// resources restricts resource requests and limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::unstructured_object")]
    pub resources: Option<Value>,

    /// qosClasses lists the quality-of-service classes that match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub qos_classes: Vec<String>,

    /// registries lists the registries that match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::unstructured_objects")]
    pub registries: Vec<Value>,

    /// schedulers lists the schedulers that match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::unstructured_objects")]
    pub schedulers: Vec<Value>,
}

/// ServiceRules restricts Services.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct ServiceRules {
    /// types lists the types of Services that match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,

    /// loadBalancers restricts Services of type LoadBalancer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancers: Option<LoadBalancerRules>,

    /// externalNames restricts Services of type ExternalName.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_names: Option<ExternalNameRules>,

    /// nodePorts restricts node ports that a Service sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_ports: Option<NodePortRules>,
}

/// LoadBalancerRules restricts Services of type LoadBalancer.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerRules {
    /// cidrs lists the networks that must contain the address and the source ranges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cidrs: Vec<String>,
}

/// ExternalNameRules restricts Services of type ExternalName.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalNameRules {
    /// hostnames lists the host names that match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::unstructured_objects")]
    pub hostnames: Vec<Value>,
}

/// NodePortRules restricts node ports.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePortRules {
    /// ports lists the ranges of node ports that match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<NodePortRange>,
}

/// NodePortRange is a range of ports. Both ends are included.
#[derive(KubeSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePortRange {
    /// from is the first port.
    #[schemars(range(min = 1, max = 65535))]
    pub from: i32,

    /// to is the last port.
    #[schemars(range(min = 1, max = 65535))]
    pub to: i32,
}

/// IngressRules restricts host names.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct IngressRules {
    /// types lists the kinds of objects to which the rule applies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,

    /// hostnames lists the host names that match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::unstructured_objects")]
    pub hostnames: Vec<Value>,
}

/// RulePermissions grants permissions in the namespaces of a rule.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct RulePermissions {
    /// bindings lists RoleBindings of each of the namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub bindings: Vec<AdditionalRoleBinding>,

    /// promotions lists ClusterRoles for selected ServiceAccounts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::unstructured_objects")]
    pub promotions: Vec<Value>,
}
