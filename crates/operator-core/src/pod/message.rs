//! The fields of a Pod that are read, in Protobuf.
//!
//! Field numbers are those of `k8s.io/api/core/v1/generated.proto` and
//! `k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto`. As JSON, the messages are what the API server sends,
//! without the other fields.

use std::collections::BTreeMap;

use k8s_openapi::jiff;
use prost::Message;
use serde::{Serialize, Serializer, ser::Error as _};

/// `k8s.io.api.core.v1.Pod`.
#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct PodMessage {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Metadata>,
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<Spec>,
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[prost(string, tag = "1")]
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[prost(string, tag = "3")]
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    #[prost(string, tag = "5")]
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    #[prost(string, tag = "6")]
    #[serde(skip_serializing_if = "String::is_empty")]
    resource_version: String,
    #[prost(message, optional, tag = "8")]
    #[serde(skip_serializing_if = "is_unset", serialize_with = "serialize_time")]
    creation_timestamp: Option<Timestamp>,
    #[prost(message, optional, tag = "9")]
    #[serde(skip_serializing_if = "is_unset", serialize_with = "serialize_time")]
    deletion_timestamp: Option<Timestamp>,
    #[prost(btree_map = "string, string", tag = "11")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "12")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
    #[prost(message, repeated, tag = "13")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    owner_references: Vec<OwnerReference>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct OwnerReference {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(string, tag = "4")]
    uid: String,
    #[prost(string, tag = "5")]
    api_version: String,
    #[prost(bool, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    controller: Option<bool>,
    #[prost(bool, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    block_owner_deletion: Option<bool>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[prost(string, tag = "10")]
    #[serde(skip_serializing_if = "String::is_empty")]
    node_name: String,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[prost(string, tag = "1")]
    #[serde(skip_serializing_if = "String::is_empty")]
    phase: String,
    #[prost(message, repeated, tag = "2")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conditions: Vec<Condition>,
    #[prost(string, tag = "6")]
    #[serde(rename = "podIP", skip_serializing_if = "String::is_empty")]
    pod_ip: String,
    #[prost(message, repeated, tag = "8")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    #[prost(string, tag = "1")]
    #[serde(rename = "type")]
    kind: String,
    #[prost(string, tag = "2")]
    status: String,
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "is_unset", serialize_with = "serialize_time")]
    last_transition_time: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus {
    #[prost(int32, tag = "5")]
    restart_count: i32,
}

/// `k8s.io.apimachinery.pkg.apis.meta.v1.Time`. The API server writes no fractions of seconds.
#[derive(Clone, Copy, PartialEq, Message)]
struct Timestamp {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

/// Returns whether a time is not set. The API server then sends an empty message, or none.
#[expect(clippy::ref_option, reason = "the signature of skip_serializing_if")]
fn is_unset(time: &Option<Timestamp>) -> bool {
    time.is_none_or(|time| time.seconds == 0)
}

#[expect(clippy::ref_option, reason = "the signature of serialize_with")]
fn serialize_time<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    let seconds = time.map_or(0, |time| time.seconds);
    let time = jiff::Timestamp::from_second(seconds).map_err(S::Error::custom)?;
    serializer.collect_str(&time)
}
