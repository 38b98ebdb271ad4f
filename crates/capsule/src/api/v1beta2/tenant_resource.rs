//! `TenantResource` and `GlobalTenantResource`: objects that are replicated into the namespaces of
//! Tenants.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ProcessedItem, ReplicatedResources};

/// Default of `resyncPeriod`.
pub const DEFAULT_RESYNC_PERIOD: &str = "60s";

/// TenantResourceSpec defines the objects that a Tenant owner replicates into the namespaces of the
/// Tenant.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[allow(clippy::duplicated_attributes, reason = "several columns are of one type")]
#[kube(
    group = "capsule.clastix.io",
    version = "v1beta2",
    kind = "TenantResource",
    plural = "tenantresources",
    singular = "tenantresource",
    shortname = "tr",
    category = "ensemble",
    namespaced,
    status = "TenantResourceStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "TenantResource replicates objects into the namespaces of the Tenant that its own namespace belongs to.",
    printcolumn(
        name = "Items",
        type_ = "integer",
        json_path = ".status.size",
        description = "Number of replicated items"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#,
        description = "Status of the condition Ready"
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
        description = "Message of the condition Ready"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since the TenantResource was created"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct TenantResourceSpec {
    /// settings define how existing objects are treated.
    #[serde(default)]
    pub settings: ReplicationSettings,

    /// dependsOn lists TenantResources in the same namespace that must be Ready first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub depends_on: Vec<Dependency>,

    /// resyncPeriod is the time after which the objects are compared with the cluster again, as a
    /// duration such as 60s or 1h30m. 0 disables it.
    #[serde(default = "default_resync_period")]
    #[schemars(regex(pattern = r"^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$"), length(max = 32))]
    pub resync_period: String,

    /// pruningOnDelete deletes the created objects that the spec no longer describes, also when the
    /// TenantResource is deleted.
    #[serde(default = "default_true")]
    pub pruning_on_delete: bool,

    /// cordoned pauses the replication: nothing is applied and nothing is pruned.
    #[serde(default)]
    pub cordoned: bool,

    /// resources lists the objects to replicate, and the namespaces for them.
    #[schemars(length(max = 64))]
    pub resources: Vec<ReplicatedResources>,

    /// serviceAccount is the ServiceAccount in the namespace of the TenantResource that reads and
    /// writes all objects. If unset, the CapsuleConfiguration names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<LocalServiceAccount>,
}

/// TenantResourceStatus is the observed state of a TenantResource.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TenantResourceStatus {
    /// observedGeneration is the generation of the spec that the status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// size is the number of items in processedItems.
    #[serde(default)]
    pub size: i64,

    /// serviceAccount is the ServiceAccount that reads and writes the objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ServiceAccountReference>,

    /// processedItems lists every replicated item, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processed_items: Vec<ProcessedItem>,

    /// conditions contains the conditions Ready and Cordoned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// GlobalTenantResourceSpec defines the objects that an administrator replicates for Tenants.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[allow(clippy::duplicated_attributes, reason = "several columns are of one type")]
#[kube(
    group = "capsule.clastix.io",
    version = "v1beta2",
    kind = "GlobalTenantResource",
    plural = "globaltenantresources",
    singular = "globaltenantresource",
    shortname = "gtr",
    category = "ensemble",
    status = "GlobalTenantResourceStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "GlobalTenantResource replicates objects for the selected Tenants.",
    printcolumn(
        name = "Items",
        type_ = "integer",
        json_path = ".status.size",
        description = "Number of replicated items"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#,
        description = "Status of the condition Ready"
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
        description = "Message of the condition Ready"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since the GlobalTenantResource was created"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct GlobalTenantResourceSpec {
    /// settings define how existing objects are treated.
    #[serde(default)]
    pub settings: ReplicationSettings,

    /// dependsOn lists GlobalTenantResources that must be Ready first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub depends_on: Vec<Dependency>,

    /// resyncPeriod is the time after which the objects are compared with the cluster again, as a
    /// duration such as 60s or 1h30m. 0 disables it.
    #[serde(default = "default_resync_period")]
    #[schemars(regex(pattern = r"^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$"), length(max = 32))]
    pub resync_period: String,

    /// pruningOnDelete deletes the created objects that the spec no longer describes, also when the
    /// GlobalTenantResource is deleted.
    #[serde(default = "default_true")]
    pub pruning_on_delete: bool,

    /// cordoned pauses the replication: nothing is applied and nothing is pruned.
    #[serde(default)]
    pub cordoned: bool,

    /// resources lists the objects to replicate, and the namespaces for them.
    #[schemars(length(max = 64))]
    pub resources: Vec<ReplicatedResources>,

    /// serviceAccount is the ServiceAccount that reads and writes all objects. If unset, the
    /// CapsuleConfiguration names it. If that names none, it is the manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ServiceAccountReference>,

    /// scope is Namespace to create the objects in each namespace of the selected Tenants, Tenant to
    /// create them once for each selected Tenant, or None to create them once.
    #[serde(default)]
    pub scope: ReplicationScope,

    /// tenantSelector selects Tenants by their labels. If unset, all Tenants are selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_selector: Option<LabelSelector>,
}

/// GlobalTenantResourceStatus is the observed state of a GlobalTenantResource.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GlobalTenantResourceStatus {
    /// observedGeneration is the generation of the spec that the status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// selectedTenants lists the names of the selected Tenants, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub selected_tenants: Vec<String>,

    /// size is the number of items in processedItems.
    #[serde(default)]
    pub size: i64,

    /// serviceAccount is the ServiceAccount that reads and writes the objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ServiceAccountReference>,

    /// processedItems lists every replicated item, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processed_items: Vec<ProcessedItem>,

    /// conditions contains the conditions Ready and Cordoned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// ReplicationSettings define how existing objects are treated.
#[derive(KubeSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicationSettings {
    /// adopt allows changes of objects that no replication has created. They are never deleted.
    #[serde(default)]
    pub adopt: bool,

    /// force takes over the fields that another field manager owns.
    #[serde(default)]
    pub force: bool,
}

/// Dependency names another object of the same kind.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Dependency {
    /// name is the name of the object that must be Ready first.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// LocalServiceAccount names a ServiceAccount in the same namespace.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalServiceAccount {
    /// name is the name of the ServiceAccount.
    #[schemars(regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"), length(max = 63))]
    pub name: String,
}

/// ServiceAccountReference names a ServiceAccount.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceAccountReference {
    /// name is the name of the ServiceAccount.
    #[schemars(regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"), length(max = 63))]
    pub name: String,

    /// namespace is the namespace of the ServiceAccount.
    #[schemars(regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"), length(max = 63))]
    pub namespace: String,
}

/// ReplicationScope is how often the objects of a GlobalTenantResource are created.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum ReplicationScope {
    /// In each namespace of the selected Tenants.
    #[default]
    Namespace,
    /// Once for each selected Tenant.
    Tenant,
    /// Once.
    None,
}

impl ServiceAccountReference {
    /// Returns the user name, such as `system:serviceaccount:solar:replicator`.
    pub fn user_name(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// Returns the ServiceAccount with this user name. `None` for another kind of user.
    pub fn of_user(user: &str) -> Option<Self> {
        let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
        Some(Self { name: name.to_owned(), namespace: namespace.to_owned() })
    }
}

fn default_resync_period() -> String {
    DEFAULT_RESYNC_PERIOD.to_owned()
}

fn default_true() -> bool {
    true
}
