//! RoleBindings beyond those of the owners.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::Subject;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::api::schema;

/// A RoleBinding that each namespace gets.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdditionalRoleBinding {
    /// The cluster role to give.
    #[schemars(length(min = 1))]
    pub cluster_role_name: String,

    /// Who gets it. A ServiceAccount without a namespace is the one of that name in each namespace.
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = Rule::new(schema::ARE_SUBJECTS).message(schema::ARE_SUBJECTS_MESSAGE))]
    pub subjects: Vec<Subject>,

    /// Labels for the RoleBinding.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,

    /// Annotations for the RoleBinding.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}
