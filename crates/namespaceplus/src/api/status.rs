//! The status of a NamespacePlus.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hook::HookEvent;

/// status is the observed state of the NamespacePlus.
#[derive(Clone, Debug, Default, Deserialize, Serialize, KubeSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NamespacePlusStatus {
    /// observedGeneration is the generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// namespace is the name of the owned namespace. It is unset if none is owned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// conditions are the latest observations: NamespaceReady, QuotaReady, PoliciesReady,
    /// AccessReady, HooksDelivered, and Ready, which summarizes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// hooks are the results of the hook calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 48))]
    pub hooks: Vec<HookStatus>,
}

/// The result of a hook call.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct HookStatus {
    /// name is the name of the hook in the spec.
    pub name: String,
    /// event is the event that triggered the call.
    pub event: HookEvent,
    /// id identifies the call. All attempts send it in the header Idempotency-Key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// state is the state of the call.
    pub state: HookState,
    /// attempts is the number of attempts.
    #[serde(default)]
    pub attempts: i32,
    /// lastAttempt is the time of the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_attempt: Option<Time>,
    /// attemptDeadline is the time by which the current attempt has ended, even if the manager that
    /// made it crashed. No other attempt starts before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_deadline: Option<Time>,
    /// message describes the result.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The state of a hook call.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
pub enum HookState {
    /// The call is not made yet, or will be retried.
    Pending,
    /// The receiver accepted the call.
    Delivered,
    /// All attempts failed. The call is not retried.
    Failed,
}
