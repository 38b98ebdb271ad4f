//! The Pod template of a PodSet in a compact form.
#![allow(unreachable_pub, reason = "a part of the API, which is exported from there")]

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};
use serde_json::Value;

/// A Pod template as JSON. The types of a template with one container take 4 KiB, and only the creation of a Pod
/// reads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactTemplate(Arc<str>);

impl CompactTemplate {
    /// Returns the compact form of a template.
    ///
    /// # Errors
    /// Returns an error if the template has no JSON form.
    pub fn new(template: &PodTemplateSpec) -> serde_json::Result<Self> {
        serde_json::to_string(template).map(|text| Self(text.into()))
    }

    /// Returns the template.
    ///
    /// # Errors
    /// Returns an error if the JSON form of the template cannot be decoded.
    pub fn decode(&self) -> serde_json::Result<PodTemplateSpec> {
        serde_json::from_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for CompactTemplate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(&PodTemplateSpec::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl Serialize for CompactTemplate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<Value>(&self.0).map_err(S::Error::custom)?.serialize(serializer)
    }
}
