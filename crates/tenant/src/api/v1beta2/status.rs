//! What the controller says of a Tenant.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::owner::{OwnerKind, default_cluster_roles};
use crate::api::schema;

/// What the controller found and did.
// Everything may be missing when it is read: a status that another program wrote must not hide its Tenant.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["state", "size", "conditions"]))]
pub struct TenantStatus {
    /// Whether the Tenant is in use, cordoned, or on its way out.
    #[serde(default)]
    pub state: TenantState,

    /// The generation of the spec that the rest of the status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Everybody who owns the Tenant, with the cluster roles they have in its namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<OwnerStatus>,

    /// The ServiceAccounts that got more rights by promotion.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub promotions: Vec<PromotionStatus>,

    /// How many namespaces the Tenant has.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub size: i64,

    /// The names of the namespaces, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,

    /// The namespaces and how they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub spaces: Vec<Space>,

    /// Reservations within the quota of namespaces that were given to namespaces which are about to be created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["namespace".into()]))]
    pub reservations: Vec<Reservation>,

    /// The classes that exist and that the Tenant may use: all of a kind if the spec has no list for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<AvailableClasses>,

    /// How the Tenant is; Ready sums it up.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// Whether a Tenant is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum TenantState {
    /// It is in use.
    #[default]
    Active,
    /// Its people may change nothing.
    Cordoned,
    /// It is being deleted.
    Terminating,
}

/// An owner, with the roles that hold.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerStatus {
    /// What the name is the name of.
    pub kind: OwnerKind,

    /// The name as the API server knows it after authentication.
    pub name: String,

    /// The cluster roles that the owner has in each namespace of the Tenant.
    #[serde(default = "default_cluster_roles")]
    pub cluster_roles: Vec<String>,
}

/// A ServiceAccount that got more rights by promotion.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PromotionStatus {
    /// What the name is the name of.
    pub kind: OwnerKind,

    /// The name as the API server knows it after authentication.
    pub name: String,

    /// The cluster roles that it has in the target namespaces.
    #[serde(default = "default_cluster_roles")]
    pub cluster_roles: Vec<String>,

    /// The namespaces where it has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
}

/// One namespace of a Tenant.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["name", "conditions"]))]
pub struct Space {
    /// The name of the namespace.
    pub name: String,

    /// The UID of the namespace; another namespace of that name is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,

    /// How the namespace is: Ready, Cordoned, and Terminating while it is being deleted.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// The labels and annotations that the controller put on the namespace, so that it can take them away
    /// again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,

    /// What the rules enforce in the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforce: Option<SpaceEnforcement>,
}

/// A place within the quota of namespaces, until it is known whether the namespace was created.
#[derive(KubeSchema, Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reservation {
    /// The name of the namespace.
    pub namespace: String,

    /// until is when the place is free again if there is no such namespace, by the clock of the replica that wrote it.
    /// Replicas judge by how long they have seen the entry unchanged.
    pub until: Time,
}

/// Labels and annotations.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,

    /// The annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// What the rules enforce in a namespace.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SpaceEnforcement {
    /// The registries that images may come from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::open_objects")]
    pub registry: Vec<Value>,
}

/// The names of the classes that a Tenant may use.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AvailableClasses {
    /// The StorageClasses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub storage: Vec<String>,

    /// The PriorityClasses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub priority: Vec<String>,

    /// The RuntimeClasses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runtime: Vec<String>,

    /// The GatewayClasses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gateway: Vec<String>,

    /// The DeviceClasses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device: Vec<String>,
}
