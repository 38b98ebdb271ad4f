//! Owners of a Tenant.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{names::DELETER_ROLE, schema};

/// OwnerSpec is one owner of a Tenant.
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

    /// clusterRoles lists the ClusterRoles of the owner in each namespace of the Tenant.
    #[serde(default = "default_cluster_roles")]
    #[schemars(length(max = 64))]
    pub cluster_roles: Vec<String>,

    /// proxySettings lists the cluster-scoped kinds that the proxy shows to the owner. Only List has an
    /// effect: rights to change objects are a matter of RBAC.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub proxy_settings: Vec<ProxySettings>,

    /// labels are added to the RoleBindings of the owner.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,

    /// annotations are added to the RoleBindings of the owner.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// Returns the default ClusterRoles of an owner: full access to a namespace, and its deletion.
pub fn default_cluster_roles() -> Vec<String> {
    vec!["admin".to_owned(), DELETER_ROLE.to_owned()]
}

/// OwnerKind is the kind of an owner.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema,
)]
pub enum OwnerKind {
    /// A user.
    #[default]
    User,
    /// All members of a group.
    Group,
    /// A ServiceAccount.
    ServiceAccount,
}

/// ProxySettings lists the operations of an owner on one cluster-scoped kind.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxySettings {
    /// kind is the cluster-scoped kind.
    pub kind: ProxyKind,

    /// operations lists the allowed operations.
    #[schemars(length(max = 3))]
    pub operations: Vec<ProxyOperation>,
}

/// ProxyKind is a cluster-scoped kind that the proxy filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ProxyKind {
    /// Nodes.
    Nodes,
    /// StorageClasses.
    StorageClasses,
    /// IngressClasses.
    IngressClasses,
    /// PriorityClasses.
    PriorityClasses,
    /// RuntimeClasses.
    RuntimeClasses,
    /// PersistentVolumes.
    PersistentVolumes,
}

impl ProxyKind {
    /// All kinds that the proxy shows. It does not show Nodes.
    pub const SHOWN: [Self; 5] = [
        Self::StorageClasses,
        Self::IngressClasses,
        Self::PriorityClasses,
        Self::RuntimeClasses,
        Self::PersistentVolumes,
    ];
}

/// ProxyOperation is an operation that the proxy allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ProxyOperation {
    /// List.
    List,
    /// Update.
    Update,
    /// Delete.
    Delete,
}

/// Permissions selects further owners of a Tenant.
#[derive(KubeSchema, Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Permissions {
    /// matchOwners selects TenantOwners. A TenantOwner is an owner if it matches any of the
    /// selectors, or if its label `projectcapsule.dev/tenant` contains the name of the Tenant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::strict)]
    pub match_owners: Vec<LabelSelector>,

    /// allowOwnerPromotion lets ServiceAccounts with the label
    /// `owner.projectcapsule.dev/promote=true` become owners, if the configuration allows it.
    #[serde(default = "default_true")]
    pub allow_owner_promotion: bool,
}

impl Default for Permissions {
    fn default() -> Self {
        Self { match_owners: Vec::new(), allow_owner_promotion: true }
    }
}

fn default_true() -> bool {
    true
}
