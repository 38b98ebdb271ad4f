//! Messages around an object, with the fields and numbers of Kubernetes' `generated.proto` files.
//!
//! An object is [`MAGIC`], and an [`Unknown`] with the message of its kind. A watch is a sequence of [`WatchEvent`]s,
//! each after its length in four bytes, the most significant first.

use prost::Message;
use serde::Serialize;

/// First bytes of an object, before its [`Unknown`].
pub const MAGIC: &[u8] = b"k8s\0";

/// `k8s.io.apimachinery.pkg.runtime.Unknown`: an object and its type.
#[derive(Clone, PartialEq, Message)]
pub struct Unknown {
    /// Its type.
    #[prost(message, required, tag = "1")]
    pub types: TypeMeta,
    /// The message of its kind.
    #[prost(bytes = "vec", tag = "2")]
    pub raw: Vec<u8>,
}

/// `k8s.io.apimachinery.pkg.runtime.TypeMeta`: the type of an object.
#[derive(Clone, PartialEq, Message)]
pub struct TypeMeta {
    /// `apiVersion`.
    #[prost(string, tag = "1")]
    pub api_version: String,
    /// `kind`.
    #[prost(string, tag = "2")]
    pub kind: String,
}

/// `k8s.io.apimachinery.pkg.apis.meta.v1.WatchEvent`: an event of a watch.
#[derive(Clone, PartialEq, Message)]
pub struct WatchEvent {
    /// `type`: `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK`, or `ERROR`.
    #[prost(string, tag = "1")]
    pub kind: String,
    /// The object.
    #[prost(message, required, tag = "2")]
    pub object: RawExtension,
}

/// `k8s.io.apimachinery.pkg.runtime.RawExtension`: an object that has been encoded.
#[derive(Clone, PartialEq, Message)]
pub struct RawExtension {
    /// An object, with [`MAGIC`].
    #[prost(bytes = "vec", tag = "1")]
    pub raw: Vec<u8>,
}

/// `k8s.io.apimachinery.pkg.apis.meta.v1.Status`: why a request failed.
#[derive(Clone, PartialEq, Message, Serialize)]
pub struct Status {
    /// `Success` or `Failure`.
    #[prost(string, tag = "2")]
    pub status: String,
    /// What went wrong, for humans.
    #[prost(string, tag = "3")]
    pub message: String,
    /// What went wrong, in one word.
    #[prost(string, tag = "4")]
    pub reason: String,
    /// What the request was about.
    #[prost(message, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<StatusDetails>,
    /// The HTTP status.
    #[prost(int32, tag = "6")]
    pub code: i32,
}

/// `k8s.io.apimachinery.pkg.apis.meta.v1.StatusDetails`: what a failed request was about.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusDetails {
    /// Name of the object.
    #[prost(string, tag = "1")]
    pub name: String,
    /// API group of the object.
    #[prost(string, tag = "2")]
    pub group: String,
    /// Kind of the object.
    #[prost(string, tag = "3")]
    pub kind: String,
    /// Causes, such as the fields that are invalid.
    #[prost(message, repeated, tag = "4")]
    pub causes: Vec<StatusCause>,
    /// Seconds after which a client may try again.
    #[prost(int32, tag = "5")]
    pub retry_after_seconds: i32,
    /// UID of the object.
    #[prost(string, tag = "6")]
    pub uid: String,
}

/// `k8s.io.apimachinery.pkg.apis.meta.v1.StatusCause`: a cause of a failure.
#[derive(Clone, PartialEq, Message, Serialize)]
pub struct StatusCause {
    /// What is wrong, in one word.
    #[prost(string, tag = "1")]
    pub reason: String,
    /// What is wrong, for humans.
    #[prost(string, tag = "2")]
    pub message: String,
    /// The field that is wrong.
    #[prost(string, tag = "3")]
    pub field: String,
}
