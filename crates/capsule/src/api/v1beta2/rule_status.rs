//! `RuleStatus`: rules that apply in a namespace.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::rules::Enforcement;

/// RuleStatusSpec lists the rules of a Tenant that apply in the namespace, in their order.
#[allow(clippy::duplicated_attributes, reason = "several columns are of one type")]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "capsule.clastix.io",
    version = "v1beta2",
    kind = "RuleStatus",
    plural = "rulestatuses",
    singular = "rulestatus",
    category = "ensemble",
    namespaced,
    status = "RuleStatusStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "RuleStatus contains the rules of a Tenant that apply in its namespace. This version of the manager does not use it.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#,
        description = "Status of the condition Ready"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
        description = "Message of the condition Ready"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since the RuleStatus was created"
    )
)]
#[serde(transparent)]
// Raw values, because the schema is not final.
pub struct RuleStatusSpec(#[schemars(with = "Vec<RuleBody>", length(max = 256))] pub Vec<Value>);

/// RuleBody is a rule without its namespace selector.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct RuleBody {
    /// enforce restricts what requests can contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforce: Option<Enforcement>,
}

/// RuleStatusStatus lists the rules that are in effect.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["conditions"]))]
pub struct RuleStatusStatus {
    /// observedGeneration is the generation of the spec that the status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// rule combines all rules. Deprecated: use rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<RuleBody>")]
    pub rule: Option<Value>,

    /// rules lists the rules that are in effect, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<RuleBody>")]
    pub rules: Vec<Value>,

    /// conditions contains the conditions of the rules. Ready reports whether they are in effect.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}
