//! The objects that a NamespacePlus creates in its namespace.

use std::collections::BTreeMap;

use k8s_openapi::api::{networking::v1::NetworkPolicySpec, policy::v1::PodDisruptionBudgetSpec};
use kube::{KubeSchema, core::Rule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Amount;

/// Amounts by resource name, for example `cpu` or `requests.storage`.
pub type Amounts = BTreeMap<String, Amount>;

/// limitRange constrains each Pod, container, or PersistentVolumeClaim.
#[derive(Clone, Debug, Default, Deserialize, Serialize, KubeSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// limits are the constraints, one item for each type of object.
    #[schemars(length(min = 1, max = 8))]
    pub limits: Vec<Limit>,
}

/// limit constrains one type of object.
#[derive(Clone, Debug, Default, Deserialize, Serialize, KubeSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Limit {
    /// type is the type of object: Pod, Container or PersistentVolumeClaim.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// max is the maximum amount by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub max: Amounts,
    /// min is the minimum amount by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub min: Amounts,
    /// default is the limit of containers that set none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub default: Amounts,
    /// defaultRequest is the request of containers that set none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub default_request: Amounts,
    /// maxLimitRequestRatio is the maximum ratio of limit to request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub max_limit_request_ratio: Amounts,
}

/// A NetworkPolicy of the namespace.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NamedNetworkPolicy {
    /// name is the name of the NetworkPolicy.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = name_rule())]
    pub name: String,
    /// spec is the spec of the NetworkPolicy.
    #[schemars(with = "NetworkPolicySpec")]
    pub spec: Value,
}

/// A PodDisruptionBudget of the namespace.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NamedDisruptionBudget {
    /// name is the name of the PodDisruptionBudget.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = name_rule())]
    pub name: String,
    /// spec is the spec of the PodDisruptionBudget.
    #[schemars(with = "PodDisruptionBudgetSpec")]
    #[x_kube(validation = Rule::new("!has(self.minAvailable) || !has(self.maxUnavailable)")
        .message("give minAvailable or maxUnavailable, not both"))]
    pub spec: Value,
}

/// A RoleBinding of the namespace.
#[derive(Clone, Debug, Default, Deserialize, Serialize, KubeSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.role) != has(self.clusterRole)")
    .message("give exactly one of role and clusterRole"))]
pub struct NamedRoleBinding {
    /// name is the name of the RoleBinding.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = name_rule())]
    pub name: String,
    /// role is the name of a Role in the namespace. The controller does not create the Role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub role: Option<String>,
    /// clusterRole is the name of a ClusterRole, which the RoleBinding grants in this namespace
    /// only. By default, the manager may grant admin, edit and view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub cluster_role: Option<String>,
    /// subjects are the users, groups, and ServiceAccounts that get the role.
    #[schemars(length(min = 1, max = 64))]
    pub subjects: Vec<Subject>,
}

/// A user, a group, or a ServiceAccount.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.kind != 'ServiceAccount' || has(self.namespace)")
    .message("a ServiceAccount needs its namespace"))]
#[x_kube(validation = Rule::new("self.kind == 'ServiceAccount' || !has(self.namespace)")
    .message("a User or Group has no namespace"))]
#[x_kube(validation = Rule::new(
    "!has(self.apiGroup) || self.apiGroup == (self.kind == 'ServiceAccount' ? '' : 'rbac.authorization.k8s.io')")
    .message("leave apiGroup out, or give rbac.authorization.k8s.io for a User or Group and \"\" for a ServiceAccount"))]
pub struct Subject {
    /// kind is the kind of the subject.
    pub kind: SubjectKind,
    /// name is the name of the subject.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// namespace is the namespace of a ServiceAccount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
    /// apiGroup is the API group of the kind. Defaults to the group that belongs to the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub api_group: Option<String>,
}

/// The kind of a subject.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
pub enum SubjectKind {
    /// A user, by the name that authentication provides.
    User,
    /// A group of users.
    Group,
    /// A ServiceAccount.
    ServiceAccount,
}

impl SubjectKind {
    /// Returns the name of the kind in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "User",
            Self::Group => "Group",
            Self::ServiceAccount => "ServiceAccount",
        }
    }
}

fn name_rule() -> Rule {
    Rule::new("self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')")
        .message("a name is made of a-z, 0-9, '-' and '.', and begins and ends with a letter or digit")
}
