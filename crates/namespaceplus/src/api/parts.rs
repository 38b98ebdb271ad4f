//! What a NamespacePlus makes inside its namespace.

use std::collections::BTreeMap;

use k8s_openapi::api::{networking::v1::NetworkPolicySpec, policy::v1::PodDisruptionBudgetSpec};
use kube::{KubeSchema, core::Rule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Amount;

/// Amounts by the name of the resource, `cpu` or `requests.storage` for example.
pub type Amounts = BTreeMap<String, Amount>;

/// What a single pod, container or volume claim may take.
#[derive(Clone, Debug, Default, Deserialize, Serialize, KubeSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// The limits, one item for each kind of thing that is limited.
    #[schemars(length(min = 1, max = 8))]
    pub limits: Vec<Limit>,
}

/// The limits of one kind of thing.
#[derive(Clone, Debug, Default, Deserialize, Serialize, KubeSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Limit {
    /// What is limited: Pod, Container or PersistentVolumeClaim.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// The most that may be asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    #[x_kube(validation = amounts_rule())]
    pub max: Amounts,
    /// The least that must be asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    #[x_kube(validation = amounts_rule())]
    pub min: Amounts,
    /// The limit that a container gets which says nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    #[x_kube(validation = amounts_rule())]
    pub default: Amounts,
    /// The request that a container gets which says nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    #[x_kube(validation = amounts_rule())]
    pub default_request: Amounts,
    /// How many times the request the limit may be at most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    #[x_kube(validation = amounts_rule())]
    pub max_limit_request_ratio: Amounts,
}

/// A NetworkPolicy of the namespace.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NamedNetworkPolicy {
    /// The name of the NetworkPolicy.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = name_rule())]
    pub name: String,
    /// The spec of the NetworkPolicy.
    #[schemars(with = "NetworkPolicySpec")]
    pub spec: Value,
}

/// A PodDisruptionBudget of the namespace.
#[derive(Clone, Debug, Deserialize, Serialize, KubeSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NamedDisruptionBudget {
    /// The name of the PodDisruptionBudget.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = name_rule())]
    pub name: String,
    /// The spec of the PodDisruptionBudget.
    #[schemars(with = "PodDisruptionBudgetSpec")]
    #[x_kube(validation = Rule::new("!has(self.minAvailable) || !has(self.maxUnavailable)")
        .message("give minAvailable or maxUnavailable, not both"))]
    pub spec: Value,
}

/// A RoleBinding of the namespace: who may do what in it.
#[derive(Clone, Debug, Default, Deserialize, Serialize, KubeSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.role) != has(self.clusterRole)")
    .message("give exactly one of role and clusterRole"))]
pub struct NamedRoleBinding {
    /// The name of the RoleBinding.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = name_rule())]
    pub name: String,
    /// The Role in the namespace that is given. Somebody else makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub role: Option<String>,
    /// The ClusterRole that is given, for this namespace only. Without further rights the manager may give
    /// admin, edit and view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub cluster_role: Option<String>,
    /// Who gets it.
    #[schemars(length(min = 1, max = 64))]
    pub subjects: Vec<Subject>,
}

/// A person, a group or a program.
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
    /// What it is.
    pub kind: SubjectKind,
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The namespace of a ServiceAccount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
    /// The API group of the kind; it follows from the kind and can be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub api_group: Option<String>,
}

/// What a subject is.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
pub enum SubjectKind {
    /// A person, by the name that authentication gives.
    User,
    /// A group of people.
    Group,
    /// A program in the cluster.
    ServiceAccount,
}

impl SubjectKind {
    /// The word that stands in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "User",
            Self::Group => "Group",
            Self::ServiceAccount => "ServiceAccount",
        }
    }
}

/// The rule of a map of amounts.
pub(super) fn amounts_rule() -> Rule {
    Rule::new("self.all(k, isQuantity(string(self[k])) && !string(self[k]).startsWith('-'))")
        .message("each amount is a number or a quantity: 2, 500m, 1.5, 2Gi; and not below zero")
}

fn name_rule() -> Rule {
    Rule::new("self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')")
        .message("a name is made of a-z, 0-9, '-' and '.', and begins and ends with a letter or digit")
}
