//! `CapsuleConfiguration`: settings for all Tenants.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ForbiddenList, OwnerKind, impersonation};
use crate::api::{
    names::{DELETER_ROLE, PROVISIONER_ROLE},
    schema,
};

/// Name of the effective `CapsuleConfiguration`. Others have no effect.
pub const CONFIGURATION_NAME: &str = "default";
/// Group whose members may own Tenants if the configuration lists no users.
pub const DEFAULT_GROUP: &str = "projectcapsule.dev";

/// CapsuleConfigurationSpec defines settings for all Tenants. Every field is optional.
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
    doc = "CapsuleConfiguration contains settings for all Tenants. Only the one with the name default has an effect.",
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
        description = "Time since the configuration was created"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct CapsuleConfigurationSpec {
    /// users lists who may create namespaces and own Tenants. An owner of a Tenant who is not listed
    /// cannot create namespaces. If users, userNames, and userGroups are empty, the default is the
    /// group projectcapsule.dev.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub users: Vec<UserSpec>,

    /// userNames lists names of users that are added to users. Deprecated: use users.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub user_names: Vec<String>,

    /// userGroups lists names of groups that are added to users. Deprecated: use users.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub user_groups: Vec<String>,

    /// ignoreUserWithGroups lists groups whose members are not treated as users, even if users
    /// contains them. It does not apply to owners of Tenants and to subjects of bindings to the
    /// ClusterRoles in rbac.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub ignore_user_with_groups: Vec<String>,

    /// administrators lists who may manage the namespaces of every Tenant like an owner, and move
    /// namespaces into and out of Tenants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub administrators: Vec<UserSpec>,

    /// allowServiceAccountPromotion allows the promotion of ServiceAccounts in the namespaces of a
    /// Tenant to its owners.
    #[serde(default)]
    pub allow_service_account_promotion: bool,

    /// forceTenantPrefix requires that the name of a namespace begins with the name of its Tenant
    /// and a dash. A Tenant can override it.
    #[serde(default)]
    pub force_tenant_prefix: bool,

    /// protectedNamespaceRegex is an unanchored pattern in RE2 syntax. Owners cannot create
    /// namespaces whose names it matches. An empty pattern protects no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    #[x_kube(validation = Rule::new(schema::IS_PATTERN).message(schema::IS_PATTERN_MESSAGE))]
    pub protected_namespace_regex: Option<String>,

    /// nodeMetadata restricts the labels and annotations of nodes that owners can change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_metadata: Option<NodeMetadata>,

    /// rbac contains the names of the ClusterRoles for owners.
    #[serde(default)]
    pub rbac: RbacConfiguration,

    /// enableTLSReconciler has no effect. A flag of the manager selects its own certificates or
    /// those of cert-manager.
    #[serde(default, rename = "enableTLSReconciler")]
    pub enable_tls_reconciler: bool,

    /// overrides has no effect. It contains names of objects that only Capsule creates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::unstructured_object")]
    pub overrides: Option<Value>,

    /// admission has no effect. The manifests of the manager define its webhooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::unstructured_object")]
    pub admission: Option<Value>,

    /// cacheInvalidation has no effect. Watches keep the caches current.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub cache_invalidation: Option<String>,

    /// impersonation defines the ServiceAccounts that read and write replicated objects.
    // A raw value, so that a setting of another form does not make the configuration unreadable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "impersonation::schema")]
    pub impersonation: Option<Value>,

    /// events has no effect. Events are created in the namespace of the object that they regard, and
    /// those about cluster-scoped objects in the namespace default. The API server accepts them only
    /// there and in kube-system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::unstructured_object")]
    pub events: Option<Value>,
}

/// UserSpec identifies a user, a group, or a ServiceAccount.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UserSpec {
    /// kind is the kind of the subject: User, Group, or ServiceAccount.
    pub kind: OwnerKind,

    /// name is the name of the subject after authentication. For a ServiceAccount, it is
    /// `system:serviceaccount:<namespace>:<name>`.
    #[schemars(length(min = 1, max = 1024))]
    pub name: String,
}

/// NodeMetadata restricts the labels and annotations of nodes that owners can change.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeMetadata {
    /// forbiddenLabels lists the label keys that owners cannot change.
    #[serde(default)]
    pub forbidden_labels: ForbiddenList,

    /// forbiddenAnnotations lists the annotation keys that owners cannot change.
    #[serde(default)]
    pub forbidden_annotations: ForbiddenList,
}

/// RbacConfiguration contains the names of the ClusterRoles for owners.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[x_kube(
    validation = Rule::new("self.deleter != self.provisioner")
        .message("deleter and provisioner grant different permissions and need two names")
        .field_path(".deleter")
)]
#[serde(rename_all = "camelCase")]
pub struct RbacConfiguration {
    /// administrationClusterRoles lists the ClusterRoles of administrators in the namespaces of
    /// every Tenant.
    #[serde(default = "only_deleter_role")]
    #[schemars(length(max = 64))]
    pub administration_cluster_roles: Vec<String>,

    /// promotionClusterRoles lists the ClusterRoles of promoted ServiceAccounts.
    #[serde(default = "both_roles")]
    #[schemars(length(max = 64))]
    pub promotion_cluster_roles: Vec<String>,

    /// deleter is the name of the ClusterRole that lets owners delete their namespaces.
    #[serde(default = "deleter_role")]
    #[schemars(length(min = 1, max = 253))]
    pub deleter: String,

    /// provisioner is the name of the ClusterRole that lets owners create namespaces. All users are
    /// bound to it.
    #[serde(default = "provisioner_role")]
    #[schemars(length(min = 1, max = 253))]
    pub provisioner: String,
}

impl Default for RbacConfiguration {
    fn default() -> Self {
        Self {
            administration_cluster_roles: only_deleter_role(),
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

fn only_deleter_role() -> Vec<String> {
    vec![deleter_role()]
}

fn both_roles() -> Vec<String> {
    vec![provisioner_role(), deleter_role()]
}

/// CapsuleConfigurationStatus is the observed state of the configuration.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CapsuleConfigurationStatus {
    /// observedGeneration is the generation of the spec that the status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// users lists who may own Tenants: the users in the spec, and every aggregated TenantOwner.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<UserSpec>,

    /// tenants lists the names of all Tenants, sorted. It is an empty list if there are none.
    #[serde(default)]
    pub tenants: Vec<String>,

    /// routeReservations reserves host names and paths for Ingresses that are being created, so that
    /// one of several simultaneous Ingresses wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub route_reservations: Vec<RouteReservation>,

    /// conditions contains the conditions of the configuration. Ready reports whether it is in
    /// effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// RouteReservation reserves host names and paths for an Ingress until the caches of all replicas
/// contain it.
#[derive(KubeSchema, Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteReservation {
    /// namespace is the namespace of the Ingress.
    pub namespace: String,

    /// name is the name of the Ingress.
    pub name: String,

    /// tenant is the Tenant of the namespace.
    pub tenant: String,

    /// routes lists the reserved host names and paths.
    pub routes: Vec<Route>,

    /// resourceVersion is that of all Ingresses when the routes were reserved. If the Ingress is
    /// deleted later, the reservation ends.
    pub resource_version: String,

    /// until is when the reservation expires.
    pub until: Time,
}

/// Route is a host name and a path for which an Ingress routes requests.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// host is the host name in lower case. It is empty for all hosts.
    pub host: String,

    /// path is the path, or `/` if the Ingress has none.
    pub path: String,
}

impl CapsuleConfigurationSpec {
    /// Returns the users in the spec who may own Tenants, sorted and each once.
    pub fn owners(&self) -> Vec<UserSpec> {
        let with_kind = |kind| move |name: &String| UserSpec { kind, name: name.clone() };
        let users = self.user_names.iter().map(with_kind(OwnerKind::User));
        let groups = self.user_groups.iter().map(with_kind(OwnerKind::Group));
        let mut owners: Vec<_> = self.users.iter().cloned().chain(users).chain(groups).collect();
        if owners.is_empty() {
            owners.push(UserSpec { kind: OwnerKind::Group, name: DEFAULT_GROUP.to_owned() });
        }
        owners.sort();
        owners.dedup();
        owners
    }
}
