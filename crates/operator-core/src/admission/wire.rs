//! `AdmissionReview` of `admission.k8s.io/v1`, as it comes and goes.

use k8s_openapi::{ByteString, api::authentication::v1::UserInfo};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::request::Operation;

pub(super) const API_VERSION: &str = "admission.k8s.io/v1";
pub(super) const KIND: &str = "AdmissionReview";

/// What every Kubernetes object begins with. The rest is read once this is as it should be.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Header {
    #[serde(default)]
    pub(super) api_version: String,
    #[serde(default)]
    pub(super) kind: String,
}

#[derive(Deserialize)]
pub(super) struct Review<'b> {
    #[serde(borrow)]
    pub(super) request: Option<Asked<'b>>,
}

/// The objects stay text until it is known what they are to be read as.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Asked<'b> {
    pub(super) uid: String,
    pub(super) kind: Grouped,
    pub(super) resource: Grouped,
    #[serde(default)]
    pub(super) sub_resource: Option<String>,
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
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

impl Asked<'_> {
    /// The subresource; the API server leaves it out or sends it empty.
    pub(super) fn subresource(&self) -> Option<&str> {
        self.sub_resource.as_deref().filter(|name| !name.is_empty())
    }
}

/// A kind or a resource, within its group and version.
#[derive(Deserialize)]
pub(super) struct Grouped {
    #[serde(default)]
    pub(super) group: String,
    pub(super) version: String,
    #[serde(alias = "kind", alias = "resource")]
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
