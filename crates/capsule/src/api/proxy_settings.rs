//! `capsule.clastix.io/v1beta1`: what the proxy of Tenants shows to whom, beside what users own.

#![allow(
    unreachable_pub,
    reason = "kube's derive generates each type inside a function, where `pub` has no effect"
)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::v1beta2::{OwnerKind, ProxySettings, UserSpec};
use crate::api::schema;

/// ProxySettingSpec adds subjects to the Tenant of the namespace, for the proxy only.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "capsule.clastix.io",
    version = "v1beta1",
    kind = "ProxySetting",
    plural = "proxysettings",
    singular = "proxysetting",
    category = "ensemble",
    namespaced,
    status = "ProxySettingsStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "ProxySetting lets subjects see a Tenant through the proxy as its owners do. It must be in a namespace of the Tenant.",
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
        description = "Time since the ProxySetting was created"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ProxySettingSpec {
    /// subjects lists who sees the Tenant, and which cluster-scoped kinds.
    #[schemars(length(min = 1, max = 256))]
    pub subjects: Vec<ProxySubject>,
}

/// ProxySubject is one subject of a ProxySetting.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[x_kube(
    validation = Rule::new(schema::IS_ACCOUNT_NAME).message(schema::IS_ACCOUNT_NAME_MESSAGE).field_path(".name")
)]
#[serde(rename_all = "camelCase")]
pub struct ProxySubject {
    /// kind is the kind of the subject: User, Group, or ServiceAccount.
    pub kind: OwnerKind,

    /// name is the name of the subject after authentication. For a ServiceAccount, it is
    /// `system:serviceaccount:<namespace>:<name>`.
    #[schemars(length(min = 1, max = 1024))]
    pub name: String,

    /// proxySettings lists the cluster-scoped kinds that the proxy shows to the subject.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub proxy_settings: Vec<ProxySettings>,

    /// clusterResources must be empty: who may write a ProxySetting must not grant cluster-scoped kinds.
    /// Use a GlobalProxySettings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 0))]
    pub cluster_resources: Vec<ClusterResource>,
}

/// GlobalProxySettingsSpec grants views of cluster-scoped kinds.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "capsule.clastix.io",
    version = "v1beta1",
    kind = "GlobalProxySettings",
    plural = "globalproxysettings",
    singular = "globalproxysettings",
    category = "ensemble",
    status = "ProxySettingsStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "GlobalProxySettings lets subjects see selected objects of cluster-scoped kinds through the proxy.",
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
        description = "Time since the GlobalProxySettings was created"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct GlobalProxySettingsSpec {
    /// rules lists what the proxy shows to whom.
    #[schemars(length(min = 1, max = 256))]
    pub rules: Vec<GlobalProxyRule>,
}

/// GlobalProxyRule shows objects of cluster-scoped kinds to subjects.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GlobalProxyRule {
    /// subjects lists who sees the objects. They need not own a Tenant.
    // A CEL rule about their names, as that of ProxySubject, would exceed the budget of the API server: this is
    // a list in a list. The condition Ready says what is wrong.
    #[schemars(length(max = 256))]
    pub subjects: Vec<UserSpec>,

    /// clusterResources selects the objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub cluster_resources: Vec<ClusterResource>,
}

/// ClusterResource selects objects of cluster-scoped kinds.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterResource {
    /// apiGroups lists the API groups of the kinds, or `group/version`. The empty string is the core group.
    /// An asterisk matches any characters.
    #[schemars(length(max = 64))]
    pub api_groups: Vec<String>,

    /// resources lists the plural names of the kinds. `*` is all of them.
    #[schemars(length(max = 64))]
    pub resources: Vec<String>,

    /// operations lists what the proxy shows: lists and watches (List), and single objects (Get). List
    /// includes Get.
    #[serde(default = "all_operations")]
    #[schemars(length(max = 2))]
    pub operations: Vec<ClusterResourceOperation>,

    /// selector selects the objects by their labels. An empty selector selects nothing.
    #[schemars(transform = schema::strict)]
    pub selector: LabelSelector,
}

/// ClusterResourceOperation is an operation that the proxy shows the result of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ClusterResourceOperation {
    /// Lists, watches, and single objects.
    List,
    /// Single objects.
    Get,
}

fn all_operations() -> Vec<ClusterResourceOperation> {
    vec![ClusterResourceOperation::List, ClusterResourceOperation::Get]
}

/// ProxySettingsStatus is the observed state of a ProxySetting or a GlobalProxySettings.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxySettingsStatus {
    /// observedGeneration is the generation of the spec that the status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// conditions contains the condition Ready: whether the proxy can show what the spec grants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}
