//! `TenantOwner`: one owner, of all Tenants that select it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::{OwnerKind, owner::default_cluster_roles};
use crate::api::schema;

/// Somebody who owns the Tenants that select them by `spec.permissions.matchOwners`.
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
    doc = "A TenantOwner is one owner of all Tenants that select it by its labels.",
    printcolumn(
        name = "Kind",
        type_ = "string",
        json_path = ".spec.kind",
        description = "What the name is the name of"
    ),
    printcolumn(name = "Owner", type_ = "string", json_path = ".spec.name", description = "Who it is"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#,
        description = "Whether the Tenants know the owner"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Since when the TenantOwner exists"
    )
)]
#[x_kube(
    validation = Rule::new(schema::IS_ACCOUNT_NAME).message(schema::IS_ACCOUNT_NAME_MESSAGE).field_path(".name")
)]
#[serde(rename_all = "camelCase")]
pub struct TenantOwnerSpec {
    /// What the name is the name of.
    pub kind: OwnerKind,

    /// The name as the API server knows it after authentication; for a ServiceAccount,
    /// `system:serviceaccount:<namespace>:<name>`.
    #[schemars(length(min = 1, max = 1024))]
    pub name: String,

    /// The cluster roles that the owner gets in each namespace of the Tenants.
    #[serde(default = "default_cluster_roles")]
    #[schemars(length(max = 64))]
    pub cluster_roles: Vec<String>,

    /// Whether the owner counts as one of the users of the CapsuleConfiguration without being listed there.
    #[serde(default = "yes")]
    pub aggregate: bool,
}

fn yes() -> bool {
    true
}

/// Which Tenants the owner has.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TenantOwnerStatus {
    /// The generation of the spec that the rest of the status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The names of the Tenants, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<String>,

    /// How the TenantOwner is; Ready says whether the Tenants know it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}
