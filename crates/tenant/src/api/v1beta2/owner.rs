//! Who owns a Tenant.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{names::DELETER_ROLE, schema};

/// One owner of a Tenant.
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

    /// The cluster roles that the owner gets in each namespace of the Tenant.
    #[serde(default = "default_cluster_roles")]
    #[schemars(length(max = 64))]
    pub cluster_roles: Vec<String>,

    /// What the owner may see and do through a proxy that filters cluster-wide lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub proxy_settings: Vec<ProxySettings>,

    /// Labels for the RoleBindings of this owner.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,

    /// Annotations for the RoleBindings of this owner.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// The roles of an owner for whom none are given: everything in a namespace, and deleting the namespace
/// itself.
pub(crate) fn default_cluster_roles() -> Vec<String> {
    vec!["admin".to_owned(), DELETER_ROLE.to_owned()]
}

/// The kind of a person or program that owns a Tenant.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema,
)]
pub enum OwnerKind {
    /// A person, by user name.
    #[default]
    User,
    /// Everybody in a group.
    Group,
    /// A program in the cluster.
    ServiceAccount,
}

/// What an owner may do with one kind of cluster-wide objects through the proxy.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxySettings {
    /// The kind of objects.
    pub kind: ProxyKind,

    /// What may be done with them.
    #[schemars(length(max = 3))]
    pub operations: Vec<ProxyOperation>,
}

/// A kind of cluster-wide objects that the proxy filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ProxyKind {
    /// The nodes.
    Nodes,
    /// The storage classes.
    StorageClasses,
    /// The ingress classes.
    IngressClasses,
    /// The priority classes.
    PriorityClasses,
    /// The runtime classes.
    RuntimeClasses,
    /// The persistent volumes.
    PersistentVolumes,
}

/// An operation that the proxy lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ProxyOperation {
    /// See them.
    List,
    /// Change them.
    Update,
    /// Delete them.
    Delete,
}

/// Who else owns a Tenant.
#[derive(KubeSchema, Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Permissions {
    /// A TenantOwner that any of these selectors picks, or that carries the label `projectcapsule.dev/tenant`
    /// with the name of this Tenant, is an owner too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::strict)]
    pub match_owners: Vec<LabelSelector>,

    /// Whether ServiceAccounts with the label `owner.projectcapsule.dev/promote=true` become owners, where
    /// the configuration allows that at all.
    #[serde(default = "yes")]
    pub allow_owner_promotion: bool,
}

impl Default for Permissions {
    fn default() -> Self {
        Self { match_owners: Vec::new(), allow_owner_promotion: true }
    }
}

fn yes() -> bool {
    true
}
