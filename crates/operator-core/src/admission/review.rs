//! Wire format of `AdmissionReview` in `admission.k8s.io/v1`.

use std::fmt;

use k8s_openapi::{ByteString, api::authentication::v1::UserInfo};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::value::RawValue;

use super::request::Operation;

pub(super) const API_VERSION: &str = "admission.k8s.io/v1";
pub(super) const KIND: &str = "AdmissionReview";

/// Maximum length of names, kinds, versions, and UIDs. Names in Kubernetes have at most 253
/// characters.
const MAX_BYTES: usize = 1024;

/// A string of limited length. Strings are logged and quoted in messages, so a long one is rejected
/// before it is copied.
struct ShortString(String);

impl<'de> Deserialize<'de> for ShortString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = ShortString;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a string of at most {MAX_BYTES} bytes")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ShortString, E> {
                if text.len() > MAX_BYTES {
                    return Err(E::invalid_length(text.len(), &self));
                }
                Ok(ShortString(text.to_owned()))
            }
        }

        deserializer.deserialize_str(Visitor)
    }
}

pub(super) fn short_string<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    ShortString::deserialize(deserializer).map(|ShortString(text)| text)
}

fn optional_short_string<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<ShortString>::deserialize(deserializer)?.map(|ShortString(text)| text))
}

/// Kind and version of an object or a review.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Header {
    #[serde(default, deserialize_with = "short_string")]
    pub(super) api_version: String,
    #[serde(default, deserialize_with = "short_string")]
    pub(super) kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Review<'b> {
    #[serde(default, deserialize_with = "short_string")]
    pub(super) api_version: String,
    #[serde(default, deserialize_with = "short_string")]
    pub(super) kind: String,
    #[serde(borrow)]
    pub(super) request: Option<AdmissionRequest<'b>>,
}

/// Request of a review. The objects are decoded later, as the type of the handler.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AdmissionRequest<'b> {
    #[serde(deserialize_with = "short_string")]
    pub(super) uid: String,
    pub(super) kind: GroupVersionName,
    pub(super) resource: GroupVersionName,
    #[serde(default, deserialize_with = "optional_short_string")]
    pub(super) sub_resource: Option<String>,
    #[serde(default, deserialize_with = "optional_short_string")]
    pub(super) name: Option<String>,
    #[serde(default, deserialize_with = "optional_short_string")]
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

impl AdmissionRequest<'_> {
    /// Returns the subresource. The API server omits it or sends an empty string if there is none.
    pub(super) fn subresource(&self) -> Option<&str> {
        self.sub_resource.as_deref().filter(|name| !name.is_empty())
    }
}

/// A kind or a resource with its group and version.
#[derive(Deserialize)]
pub(super) struct GroupVersionName {
    #[serde(default, deserialize_with = "short_string")]
    pub(super) group: String,
    #[serde(deserialize_with = "short_string")]
    pub(super) version: String,
    #[serde(alias = "kind", alias = "resource", deserialize_with = "short_string")]
    pub(super) name: String,
}

/// Summary of a reviewed request, without the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewInfo {
    /// UID of the review, which the API server assigns.
    pub uid: String,
    /// Name of the user.
    pub user: String,
    /// Operation of the request.
    pub operation: Operation,
    /// Plural, subresource, group, and version.
    pub resource: String,
    /// Namespace of the object.
    pub namespace: Option<String>,
    /// Name of the object. Empty for a create with `generateName`.
    pub name: String,
    /// Whether the request is a dry run.
    pub dry_run: bool,
}

impl fmt::Display for ReviewInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespace = self.namespace.as_ref().map_or_else(String::new, |name| format!("{name}/"));
        write!(f, "{} of {} {namespace}{}", self.operation, self.resource, self.name)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReviewReply<'a> {
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
