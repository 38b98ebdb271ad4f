//! The fields of a Pod that are read, in Protobuf.
//!
//! Field numbers are those of `k8s.io/api/core/v1/generated.proto` and
//! `k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto`. As JSON, the messages are what the API server sends,
//! without the other fields.
//!
//! A text can be invalid UTF-8 where the API server does not validate it, such as the value of an annotation, because
//! clients can send Protobuf, too. Texts are therefore bytes here, and become valid as in the API server's JSON.

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
    #[prost(bytes = "vec", tag = "1")]
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "serialize_text")]
    name: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "serialize_text")]
    namespace: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "serialize_text")]
    uid: Vec<u8>,
    #[prost(bytes = "vec", tag = "6")]
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "serialize_text")]
    resource_version: Vec<u8>,
    #[prost(message, optional, tag = "8")]
    #[serde(skip_serializing_if = "is_unset", serialize_with = "serialize_time")]
    creation_timestamp: Option<Timestamp>,
    #[prost(message, optional, tag = "9")]
    #[serde(skip_serializing_if = "is_unset", serialize_with = "serialize_time")]
    deletion_timestamp: Option<Timestamp>,
    #[prost(message, repeated, tag = "11")]
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "serialize_map")]
    labels: Vec<Entry>,
    #[prost(message, repeated, tag = "12")]
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "serialize_map")]
    annotations: Vec<Entry>,
    #[prost(message, repeated, tag = "13")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    owner_references: Vec<OwnerReference>,
}

/// An entry of a map.
#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct OwnerReference {
    #[prost(bytes = "vec", tag = "1")]
    #[serde(serialize_with = "serialize_text")]
    kind: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    #[serde(serialize_with = "serialize_text")]
    name: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    #[serde(serialize_with = "serialize_text")]
    uid: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    #[serde(serialize_with = "serialize_text")]
    api_version: Vec<u8>,
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
    #[prost(bytes = "vec", tag = "10")]
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "serialize_text")]
    node_name: Vec<u8>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[prost(bytes = "vec", tag = "1")]
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "serialize_text")]
    phase: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conditions: Vec<Condition>,
    #[prost(bytes = "vec", tag = "6")]
    #[serde(rename = "podIP", skip_serializing_if = "Vec::is_empty", serialize_with = "serialize_text")]
    pod_ip: Vec<u8>,
    #[prost(message, repeated, tag = "8")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    #[prost(bytes = "vec", tag = "1")]
    #[serde(rename = "type", serialize_with = "serialize_text")]
    kind: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    #[serde(serialize_with = "serialize_text")]
    status: Vec<u8>,
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

/// Serializes a text, with U+FFFD instead of what is invalid.
#[expect(clippy::ptr_arg, reason = "the signature of serialize_with")]
fn serialize_text<S: Serializer>(text: &Vec<u8>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(text))
}

#[expect(clippy::ptr_arg, reason = "the signature of serialize_with")]
fn serialize_map<S: Serializer>(entries: &Vec<Entry>, serializer: S) -> Result<S::Ok, S::Error> {
    let text = String::from_utf8_lossy;
    serializer.collect_map(entries.iter().map(|Entry { key, value }| (text(key), text(value))))
}

#[expect(clippy::ref_option, reason = "the signature of serialize_with")]
fn serialize_time<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    let seconds = time.map_or(0, |time| time.seconds);
    let time = jiff::Timestamp::from_second(seconds).map_err(S::Error::custom)?;
    serializer.collect_str(&time)
}
