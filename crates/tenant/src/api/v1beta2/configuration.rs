//! `CapsuleConfiguration`: what holds for all Tenants.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ForbiddenList, OwnerKind};
use crate::api::{
    names::{DELETER_ROLE, PROVISIONER_ROLE},
    schema,
};

/// The `CapsuleConfiguration` that counts; others have no effect.
pub const CONFIGURATION_NAME: &str = "default";
/// The group whose members own Tenants where the configuration names nobody.
pub const DEFAULT_GROUP: &str = "projectcapsule.dev";

/// What holds for all Tenants. Every field is optional.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[allow(clippy::duplicated_attributes, reason = "several columns are of one type")]
#[kube(
    group = "capsule.clastix.io",
    version = "v1beta2",
    kind = "CapsuleConfiguration",
    plural = "capsuleconfigurations",
    singular = "capsuleconfiguration",
    category = "ensemble",
    status = "CapsuleConfigurationStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A CapsuleConfiguration says what holds for all Tenants. The one with the name default counts.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#,
        description = "Whether the configuration is in effect"
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
        description = "What is wrong, if anything"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Since when the configuration exists"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct CapsuleConfigurationSpec {
    /// Who may own Tenants and create namespaces in them. An owner of a Tenant who is not among them is treated like
    /// everybody else. If this, userNames and userGroups are all empty, it is the group projectcapsule.dev.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub users: Vec<UserSpec>,

    /// Deprecated, use users. Names of users who count as listed there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub user_names: Vec<String>,

    /// Deprecated, use users. Names of groups whose members count as listed there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub user_groups: Vec<String>,

    /// Members of these groups are not treated as owners of Tenants although they are among the users.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub ignore_user_with_groups: Vec<String>,

    /// Who may do with the namespaces of every Tenant what its owners may, and move namespaces into and out of Tenants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub administrators: Vec<UserSpec>,

    /// Whether ServiceAccounts in the namespaces of a Tenant may be promoted to owners of it.
    #[serde(default)]
    pub allow_service_account_promotion: bool,

    /// Whether the names of namespaces must begin with the name of their Tenant and a dash. A Tenant may say otherwise.
    #[serde(default)]
    pub force_tenant_prefix: bool,

    /// A pattern in RE2 syntax. Owners may not create namespaces with names that it matches anywhere. An empty one
    /// protects no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    #[x_kube(validation = Rule::new(schema::IS_PATTERN).message(schema::IS_PATTERN_MESSAGE))]
    pub protected_namespace_regex: Option<String>,

    /// Labels and annotations of nodes that owners may not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_metadata: Option<NodeMetadata>,

    /// The cluster roles that are made for owners, and those that some of them get.
    #[serde(default)]
    pub rbac: RbacConfiguration,

    /// Has no effect: the manager always keeps its own certificates, or follows those of cert-manager, by a flag.
    #[serde(default, rename = "enableTLSReconciler")]
    pub enable_tls_reconciler: bool,

    /// Has no effect: names of objects that only another implementation makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub overrides: Option<Value>,

    /// Has no effect: the webhooks are declared by the manager's own manifests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub admission: Option<Value>,

    /// Has no effect: caches follow the API server by watches and do not grow old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub cache_invalidation: Option<String>,

    /// Has no effect yet: under whose name replicated objects are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub impersonation: Option<Value>,

    /// Has no effect: Events stand in the namespace of the object they are about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub events: Option<Value>,
}

/// A person, group or program.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UserSpec {
    /// What the name is the name of.
    pub kind: OwnerKind,

    /// The name as the API server knows it after authentication; for a ServiceAccount,
    /// `system:serviceaccount:<namespace>:<name>`.
    #[schemars(length(min = 1, max = 1024))]
    pub name: String,
}

/// Labels and annotations of nodes that owners may not change.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeMetadata {
    /// The keys of the labels.
    #[serde(default)]
    pub forbidden_labels: ForbiddenList,

    /// The keys of the annotations.
    #[serde(default)]
    pub forbidden_annotations: ForbiddenList,
}

/// The cluster roles that are made for owners, and those that some of them get.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[x_kube(
    validation = Rule::new("self.deleter != self.provisioner")
        .message("deleter and provisioner grant different rights and need two names")
        .field_path(".deleter")
)]
#[serde(rename_all = "camelCase")]
pub struct RbacConfiguration {
    /// The cluster roles that administrators get in the namespaces of every Tenant.
    #[serde(default = "deleter_role_alone")]
    #[schemars(length(max = 64))]
    pub administration_cluster_roles: Vec<String>,

    /// The cluster roles that promoted ServiceAccounts get.
    #[serde(default = "both_roles")]
    #[schemars(length(max = 64))]
    pub promotion_cluster_roles: Vec<String>,

    /// The name of the cluster role that lets owners delete and label their namespaces.
    #[serde(default = "deleter_role")]
    #[schemars(length(min = 1, max = 253))]
    pub deleter: String,

    /// The name of the cluster role that lets owners create namespaces; all users are bound to it.
    #[serde(default = "provisioner_role")]
    #[schemars(length(min = 1, max = 253))]
    pub provisioner: String,
}

impl Default for RbacConfiguration {
    fn default() -> Self {
        Self {
            administration_cluster_roles: deleter_role_alone(),
            promotion_cluster_roles: both_roles(),
            deleter: deleter_role(),
            provisioner: provisioner_role(),
        }
    }
}

fn deleter_role() -> String {
    DELETER_ROLE.to_owned()
}

fn provisioner_role() -> String {
    PROVISIONER_ROLE.to_owned()
}

fn deleter_role_alone() -> Vec<String> {
    vec![deleter_role()]
}

fn both_roles() -> Vec<String> {
    vec![provisioner_role(), deleter_role()]
}

/// What the controller made of the configuration.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CapsuleConfigurationStatus {
    /// The generation of the spec that the rest of the status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Everybody who may own Tenants: the users of the spec and every TenantOwner that is to be one of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<UserSpec>,

    /// The names of all Tenants, sorted. It is empty, and not absent, if there are none.
    #[serde(default)]
    pub tenants: Vec<String>,

    /// How the configuration is; Ready says whether it is in effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

impl CapsuleConfigurationSpec {
    /// Who may own Tenants, as far as the spec says; each once, sorted.
    pub fn owners(&self) -> Vec<UserSpec> {
        let called = |kind| move |name: &String| UserSpec { kind, name: name.clone() };
        let users = self.user_names.iter().map(called(OwnerKind::User));
        let groups = self.user_groups.iter().map(called(OwnerKind::Group));
        let mut owners: Vec<_> = self.users.iter().cloned().chain(users).chain(groups).collect();
        if owners.is_empty() {
            owners.push(UserSpec { kind: OwnerKind::Group, name: DEFAULT_GROUP.to_owned() });
        }
        owners.sort();
        owners.dedup();
        owners
    }
}
