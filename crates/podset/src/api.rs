//! The PodSet API, `app.example.com/v1alpha1`.
#![allow(unreachable_pub, reason = "KubeSchema repeats each type inside a function")]

use k8s_openapi::{api::core::v1::PodTemplateSpec, apimachinery::pkg::apis::meta::v1::Condition};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// What a PodSet should be: how many pods, and of what make.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "app.example.com",
    version = "v1alpha1",
    kind = "PodSet",
    plural = "podsets",
    shortname = "ps",
    category = "ensemble",
    namespaced,
    status = "PodSetStatus",
    derive = "PartialEq",
    doc = "PodSet keeps a number of pods running.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Available", type_ = "integer", json_path = ".status.availableReplicas"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("size(self.metadata.name) <= 56")
        .message("a PodSet's name may have at most 56 characters, so that its pods' names fit a host name")
)]
#[serde(rename_all = "camelCase")]
pub struct PodSetSpec {
    /// How many pods are to run, from 1 to 10.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 10))]
    pub replicas: i32,

    /// The pods to run. Without it they run one container that sleeps. A change concerns only pods that are
    /// made from then on, as with a ReplicaSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<PodTemplateSpec>,

    /// For how many seconds all pods must have been ready without interruption before the PodSet is Ready.
    /// Numbers in the status do not wait for it.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub min_ready_seconds: i32,
}

fn one() -> i32 {
    1
}

impl Default for PodSetSpec {
    fn default() -> Self {
        Self { replicas: one(), template: None, min_ready_seconds: 0 }
    }
}

/// What is known about a PodSet.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSetStatus {
    /// The names of the pods that count, sorted.
    #[serde(default)]
    pub pod_names: Vec<String>,

    /// How many pods count: pending or running, and not being deleted.
    #[serde(default)]
    pub available_replicas: i32,

    /// The same number under the name that the scale subresource reads.
    #[serde(default)]
    pub replicas: i32,

    /// How many of them are ready now, for however long.
    #[serde(default)]
    pub ready_replicas: i32,

    /// The label selector of the pods, for autoscalers and disruption budgets.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub selector: String,

    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Statements about the PodSet: Ready, Progressing, ReplicaFailure.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    #[serde(default)]
    pub conditions: Vec<Condition>,
}
