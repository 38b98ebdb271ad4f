//! `TenantOwner`: an owner of all Tenants that select it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::{OwnerKind, owner::default_cluster_roles};
use crate::api::schema;

/// TenantOwnerSpec identifies an owner of the Tenants that select it by
/// `spec.permissions.matchOwners`.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[allow(clippy::duplicated_attributes, reason = "several columns are of one type")]
#[kube(
    group = "capsule.clastix.io",
    version = "v1beta2",
    kind = "TenantOwner",
    plural = "tenantowners",
    singular = "tenantowner",
    shortname = "to",
    category = "ensemble",
    status = "TenantOwnerStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "TenantOwner is an owner of all Tenants that select it by its labels.",
    printcolumn(
        name = "Kind",
        type_ = "string",
        json_path = ".spec.kind",
        description = "Kind of the owner"
    ),
    printcolumn(
        name = "Owner",
        type_ = "string",
        json_path = ".spec.name",
        description = "Name of the owner"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#,
        description = "Status of the condition Ready"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since the TenantOwner was created"
    )
)]
#[x_kube(
    validation = Rule::new(schema::IS_ACCOUNT_NAME).message(schema::IS_ACCOUNT_NAME_MESSAGE).field_path(".name")
)]
#[serde(rename_all = "camelCase")]
pub struct TenantOwnerSpec {
    /// kind is the kind of the owner: User, Group, or ServiceAccount.
    pub kind: OwnerKind,

    /// name is the name of the owner after authentication. For a ServiceAccount, it is
    /// `system:serviceaccount:<namespace>:<name>`.
    #[schemars(length(min = 1, max = 1024))]
    pub name: String,

    /// clusterRoles lists the ClusterRoles of the owner in each namespace of the Tenants.
    #[serde(default = "default_cluster_roles")]
    #[schemars(length(max = 64))]
    pub cluster_roles: Vec<String>,

    /// aggregate adds the owner to the users of the CapsuleConfiguration.
    #[serde(default = "default_true")]
    pub aggregate: bool,
}

fn default_true() -> bool {
    true
}

/// TenantOwnerStatus is the observed state of a TenantOwner.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TenantOwnerStatus {
    /// observedGeneration is the generation of the spec that the status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// tenants lists the names of the Tenants that select the owner, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<String>,

    /// conditions contains the conditions of the TenantOwner. Ready reports whether its name is
    /// valid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}
