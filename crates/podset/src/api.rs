//! The PodSet API, `app.example.com/v1alpha1`.
#![allow(unreachable_pub, reason = "KubeSchema repeats each type inside a function")]

use k8s_openapi::{api::core::v1::PodTemplateSpec, apimachinery::pkg::apis::meta::v1::Condition};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::compact_template::CompactTemplate;

/// Desired state of a PodSet.
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
    doc = "PodSet keeps a number of Pods running.",
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
        .message("the name of a PodSet has at most 56 characters, so that the names of its Pods are valid host names")
)]
#[serde(rename_all = "camelCase")]
pub struct PodSetSpec {
    /// replicas is the desired number of Pods, from 1 to 10.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 1, max = 10))]
    pub replicas: i32,

    /// template describes the Pods that are created. Without it, each Pod runs one container that
    /// sleeps. A change applies to Pods that are created afterwards, as with a ReplicaSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<PodTemplateSpec>")]
    pub template: Option<CompactTemplate>,

    /// minReadySeconds is the number of seconds for which all Pods must have been ready, without
    /// interruption, before the condition Ready becomes True. The counts in the status do not wait
    /// for it.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub min_ready_seconds: i32,
}

fn default_replicas() -> i32 {
    1
}

impl Default for PodSetSpec {
    fn default() -> Self {
        Self { replicas: default_replicas(), template: None, min_ready_seconds: 0 }
    }
}

/// Observed state of a PodSet.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSetStatus {
    /// podNames is the sorted list of the names of the Pods that count.
    #[serde(default)]
    pub pod_names: Vec<String>,

    /// availableReplicas is the number of Pods that count: neither finished nor being deleted, ready
    /// or not.
    #[serde(default)]
    pub available_replicas: i32,

    /// replicas is the same number as availableReplicas. The scale subresource reads it.
    #[serde(default)]
    pub replicas: i32,

    /// readyReplicas is the number of these Pods that are ready now, regardless of minReadySeconds.
    #[serde(default)]
    pub ready_replicas: i32,

    /// selector is the label selector of the Pods, for autoscalers and PodDisruptionBudgets.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub selector: String,

    /// observedGeneration is the generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// conditions are the current conditions of the PodSet: Ready, Progressing, and ReplicaFailure.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    #[serde(default)]
    pub conditions: Vec<Condition>,
}
