//! `RuleStatus`: the rules that hold in a namespace.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::rules::Enforcement;

/// The rules of a Tenant that hold in the namespace, in their order.
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
    doc = "A RuleStatus says which rules of a Tenant hold in its namespace. This version of the manager does nothing with it.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#,
        description = "Whether the rules are in effect"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
        description = "What is wrong, if anything"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Since when the RuleStatus exists"
    )
)]
#[serde(transparent)]
// As they were written: their shape is not final.
pub struct RuleStatusSpec(#[schemars(with = "Vec<RuleBody>", length(max = 256))] pub Vec<Value>);

/// One rule, without the selector that picked the namespace.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct RuleBody {
    /// What requests may contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforce: Option<Enforcement>,
}

/// Which rules are in effect.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["conditions"]))]
pub struct RuleStatusStatus {
    /// The generation of the spec that the rest of the status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Deprecated, use rules. All rules in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<RuleBody>")]
    pub rule: Option<Value>,

    /// The rules in effect, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<RuleBody>")]
    pub rules: Vec<Value>,

    /// How the rules are; Ready says whether they are in effect.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}
