//! `AdmissionReview` of `admission.k8s.io/v1`, as it comes and goes.

use std::fmt;

use k8s_openapi::{ByteString, api::authentication::v1::UserInfo};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::value::RawValue;

use super::request::Operation;

pub(super) const API_VERSION: &str = "admission.k8s.io/v1";
pub(super) const KIND: &str = "AdmissionReview";

/// The longest name, kind, version or id. Names in Kubernetes have at most 253 characters.
const LONGEST: usize = 1024;

/// A text that is short in everything that an API server sends. It is copied many times, into log
/// lines and messages among others, so a long one is refused before it is kept.
struct Short(String);

impl<'de> Deserialize<'de> for Short {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Short;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a string of at most {LONGEST} bytes")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Short, E> {
                if text.len() > LONGEST {
                    return Err(E::invalid_length(text.len(), &self));
                }
                Ok(Short(text.to_owned()))
            }
        }

        deserializer.deserialize_str(Visitor)
    }
}

pub(super) fn short<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Short::deserialize(deserializer).map(|Short(text)| text)
}

fn short_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<Short>::deserialize(deserializer)?.map(|Short(text)| text))
}

/// What every Kubernetes object begins with. The rest is read once this is as it should be.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Header {
    #[serde(default, deserialize_with = "short")]
    pub(super) api_version: String,
    #[serde(default, deserialize_with = "short")]
    pub(super) kind: String,
}

#[derive(Deserialize)]
pub(super) struct Review<'b> {
    #[serde(borrow)]
    pub(super) request: Option<RequestInfo<'b>>,
}

/// The objects stay text until it is known what they are to be read as.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequestInfo<'b> {
    #[serde(deserialize_with = "short")]
    pub(super) uid: String,
    pub(super) kind: Grouped,
    pub(super) resource: Grouped,
    #[serde(default, deserialize_with = "short_or_null")]
    pub(super) sub_resource: Option<String>,
    #[serde(default, deserialize_with = "short_or_null")]
    pub(super) name: Option<String>,
    #[serde(default, deserialize_with = "short_or_null")]
    pub(super) namespace: Option<String>,
    pub(super) operation: Operation,
    pub(super) user_info: UserInfo,
    #[serde(borrow, default)]
    pub(super) object: Option<&'b RawValue>,
    #[serde(borrow, default)]
    pub(super) old_object: Option<&'b RawValue>,
    #[serde(default)]
    pub(super) dry_run: Option<bool>,
    #[serde(borrow, default)]
    pub(super) options: Option<&'b RawValue>,
}

impl RequestInfo<'_> {
    /// The subresource; the API server leaves it out or sends it empty.
    pub(super) fn subresource(&self) -> Option<&str> {
        self.sub_resource.as_deref().filter(|name| !name.is_empty())
    }
}

/// A kind or a resource, within its group and version.
#[derive(Deserialize)]
pub(super) struct Grouped {
    #[serde(default, deserialize_with = "short")]
    pub(super) group: String,
    #[serde(deserialize_with = "short")]
    pub(super) version: String,
    #[serde(alias = "kind", alias = "resource", deserialize_with = "short")]
    pub(super) name: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reply<'a> {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Response<'a> {
    pub(super) uid: &'a str,
    pub(super) allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<Status<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) patch: Option<ByteString>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) warnings: &'a [String],
}

#[derive(Serialize)]
pub(super) struct Status<'a> {
    #[serde(rename = "status")]
    pub(super) outcome: &'static str,
    pub(super) code: u16,
    pub(super) reason: &'static str,
    pub(super) message: &'a str,
}
