//! What became of a NamespacePlus.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hook::HookEvent;

/// What became of a NamespacePlus.
#[derive(Clone, Debug, Default, Deserialize, Serialize, KubeSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NamespacePlusStatus {
    /// The generation of the spec that the rest of the status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The namespace that it owns; absent while it owns none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// NamespaceReady, QuotaReady, PoliciesReady, AccessReady, HooksDelivered, and Ready, which sums them up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// What became of the calls to other systems.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 48))]
    pub hooks: Vec<HookStatus>,
}

/// What became of one call to another system.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct HookStatus {
    /// The hook's name in the spec.
    pub name: String,
    /// The event that it was called for.
    pub event: HookEvent,
    /// What the other system can tell this call from others by: the header Idempotency-Key is the same each time that
    /// it is made.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// How far it came.
    pub state: HookState,
    /// How often it was tried.
    #[serde(default)]
    pub attempts: i32,
    /// When it was last tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_attempt: Option<Time>,
    /// While it is made: when it will have come to its end, whatever becomes of the manager that makes it. It is not
    /// made again before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under_way_until: Option<Time>,
    /// What came of it, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// How far a call came.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
pub enum HookState {
    /// It is still to be made, or to be made again.
    Pending,
    /// The other system took it.
    Delivered,
    /// It was given up.
    Failed,
}
