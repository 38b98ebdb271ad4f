//! Status of a Tenant.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::owner::{OwnerKind, default_cluster_roles};
use crate::api::schema;

/// TenantStatus is the observed state of a Tenant.
// Every field is optional when read, because another program may have written the status.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["state", "size", "conditions"]))]
pub struct TenantStatus {
    /// state is Active, Cordoned, or Terminating.
    #[serde(default)]
    pub state: TenantState,

    /// observedGeneration is the generation of the spec that the status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// owners lists all owners of the Tenant, with their ClusterRoles in its namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<OwnerStatus>,

    /// promotions lists promoted ServiceAccounts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub promotions: Vec<PromotionStatus>,

    /// size is the number of namespaces.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub size: i64,

    /// namespaces lists the names of the namespaces, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,

    /// spaces contains the state of each namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub spaces: Vec<Space>,

    /// reservations lists namespaces that are about to be created and count for the namespace
    /// quota.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["namespace".into()]))]
    pub reservations: Vec<Reservation>,

    /// classes lists the existing classes that the Tenant may use. Without a list in the spec,
    /// these are all classes of a kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<AvailableClasses>,

    /// conditions contains the conditions of the Tenant. Ready is the summary.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// TenantState is the state of a Tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum TenantState {
    /// The Tenant is in use.
    #[default]
    Active,
    /// The users of the Tenant cannot change anything.
    Cordoned,
    /// The Tenant is being deleted.
    Terminating,
}

/// OwnerStatus is an owner with its effective ClusterRoles.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerStatus {
    /// kind is the kind of the owner: User, Group, or ServiceAccount.
    pub kind: OwnerKind,

    /// name is the name of the owner after authentication.
    pub name: String,

    /// clusterRoles lists the ClusterRoles of the owner in each namespace of the Tenant.
    #[serde(default = "default_cluster_roles")]
    pub cluster_roles: Vec<String>,
}

/// PromotionStatus is a promoted ServiceAccount.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PromotionStatus {
    /// kind is the kind of the subject.
    pub kind: OwnerKind,

    /// name is the name of the subject after authentication.
    pub name: String,

    /// clusterRoles lists the ClusterRoles of the subject in the target namespaces.
    #[serde(default = "default_cluster_roles")]
    pub cluster_roles: Vec<String>,

    /// targets lists the namespaces in which the subject has the ClusterRoles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
}

/// Space is the state of one namespace of a Tenant.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["name", "conditions"]))]
pub struct Space {
    /// name is the name of the namespace.
    pub name: String,

    /// uid is the UID of the namespace. It distinguishes a recreated namespace from the former one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,

    /// conditions contains the conditions of the namespace: Ready, Cordoned, and Terminating.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// metadata contains the labels and annotations that the controller applied. It removes those
    /// that are no longer desired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,

    /// enforce contains what the rules enforce in the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforce: Option<SpaceEnforcement>,
}

/// Reservation counts a namespace for the quota until its creation has succeeded or failed.
#[derive(KubeSchema, Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reservation {
    /// namespace is the name of the namespace.
    pub namespace: String,

    /// until is when the reservation expires, by the clock of the replica that wrote it. Other
    /// replicas measure how long they have observed the entry unchanged.
    pub until: Time,
}

/// Metadata contains labels and annotations.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// labels are the labels by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,

    /// annotations are the annotations by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// SpaceEnforcement contains what the rules enforce in a namespace.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SpaceEnforcement {
    /// registry lists the allowed registries of images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::unstructured_objects")]
    pub registry: Vec<Value>,
}

/// AvailableClasses lists the names of the classes that a Tenant may use.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AvailableClasses {
    /// storage lists StorageClasses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub storage: Vec<String>,

    /// priority lists PriorityClasses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub priority: Vec<String>,

    /// runtime lists RuntimeClasses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runtime: Vec<String>,

    /// gateway lists GatewayClasses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gateway: Vec<String>,

    /// device lists DeviceClasses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device: Vec<String>,
}
