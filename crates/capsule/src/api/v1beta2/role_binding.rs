//! Additional RoleBindings of a Tenant.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::Subject;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::api::schema;

/// AdditionalRoleBinding is a RoleBinding of each namespace.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdditionalRoleBinding {
    /// clusterRoleName is the name of the ClusterRole to bind.
    #[schemars(length(min = 1))]
    pub cluster_role_name: String,

    /// subjects get the ClusterRole. A ServiceAccount without a namespace is that of the
    /// RoleBinding's namespace.
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = Rule::new(schema::ARE_SUBJECTS).message(schema::ARE_SUBJECTS_MESSAGE))]
    pub subjects: Vec<Subject>,

    /// labels are added to the RoleBinding.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,

    /// annotations are added to the RoleBinding.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}
