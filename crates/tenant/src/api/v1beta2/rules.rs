//! Rules for namespaces that a selector picks.
//!
//! Upstream calls the shape not final, so objects keep the fields that are not known here.

use k8s_openapi::{api::core::v1::ResourceQuotaSpec, apimachinery::pkg::apis::meta::v1::LabelSelector};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::AdditionalRoleBinding;
use crate::api::schema;

/// What holds in some namespaces of a Tenant, for some people.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceRule {
    /// The namespaces that it holds in; without it, all of the Tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::strict)]
    pub namespace_selector: Option<LabelSelector>,

    /// The people whose requests it holds for; without it, everybody's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub audience: Vec<Audience>,

    /// Quotas that the picked namespaces share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub quota: Vec<NamedQuota>,

    /// What requests may contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforce: Option<Enforcement>,

    /// Rights in the picked namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<RulePermissions>,
}

/// People whom a rule holds for.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Audience {
    /// What the name is the name of.
    pub kind: AudienceKind,

    /// The name of the user, group or ServiceAccount; for Custom, one of CapsuleUser, Administrator,
    /// TenantOwner, Controller.
    #[schemars(length(min = 1, max = 1024))]
    pub name: String,
}

/// The kind of people whom a rule holds for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum AudienceKind {
    /// A person.
    User,
    /// Everybody in a group.
    Group,
    /// A program in the cluster.
    ServiceAccount,
    /// Everybody in a role of the Tenant.
    Custom,
}

/// A quota that namespaces share.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedQuota {
    /// Tells it from the others of the rule.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,

    /// The limits.
    #[serde(flatten)]
    #[schemars(transform = schema::strict)]
    pub spec: ResourceQuotaSpec,
}

/// What requests may contain.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct Enforcement {
    /// What happens to a request that matches.
    #[serde(default)]
    pub action: Action,

    /// What pods may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workloads: Option<WorkloadRules>,

    /// What Services may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<ServiceRules>,

    /// What labels and annotations objects may have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::open_objects")]
    pub metadata: Vec<Value>,

    /// What host names Ingresses and Gateways may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<IngressRules>,
}

/// What happens to a request that a rule matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It is let through.
    Allow,
    /// It is refused.
    #[default]
    Deny,
    /// It is let through, and an Event says so.
    Audit,
}

/// What pods may be.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct WorkloadRules {
    /// The parts of a pod that it looks at, such as `pod/containers`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,

    /// Requests and limits of resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub resources: Option<Value>,

    /// The quality-of-service classes that it matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub qos_classes: Vec<String>,

    /// The registries that it matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::open_objects")]
    pub registries: Vec<Value>,

    /// The schedulers that it matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::open_objects")]
    pub schedulers: Vec<Value>,
}

/// What Services may be.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct ServiceRules {
    /// The types that it matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,

    /// What holds for Services of type LoadBalancer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancers: Option<LoadBalancerRules>,

    /// What holds for Services of type ExternalName.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_names: Option<ExternalNameRules>,

    /// What holds for node ports that are asked for by number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_ports: Option<NodePortRules>,
}

/// What holds for Services of type LoadBalancer.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerRules {
    /// The networks that the address and the source ranges must be in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cidrs: Vec<String>,
}

/// What holds for Services of type ExternalName.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalNameRules {
    /// The host names that it matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::open_objects")]
    pub hostnames: Vec<Value>,
}

/// What holds for node ports.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePortRules {
    /// The ranges that it matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<NodePortRange>,
}

/// Ports from one number to another, both included.
#[derive(KubeSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePortRange {
    /// The first port.
    #[schemars(range(min = 1, max = 65535))]
    pub from: i32,

    /// The last port.
    #[schemars(range(min = 1, max = 65535))]
    pub to: i32,
}

/// What host names may be used.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct IngressRules {
    /// The kinds of objects that it looks at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,

    /// The host names that it matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::open_objects")]
    pub hostnames: Vec<Value>,
}

/// Rights in the namespaces of a rule.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct RulePermissions {
    /// RoleBindings that each of the namespaces gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub bindings: Vec<AdditionalRoleBinding>,

    /// Cluster roles for ServiceAccounts that a selector picks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::open_objects")]
    pub promotions: Vec<Value>,
}
