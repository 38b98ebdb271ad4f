//! Gateways and their classes, of the Gateway API.
//!
//! A cluster need not have the Gateway API, so there is no type of `k8s_openapi` for it.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// The fields of a Gateway that admission reads or sets. Other fields are preserved.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "gateway.networking.k8s.io",
    version = "v1",
    kind = "Gateway",
    namespaced,
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct GatewaySpec {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) gateway_class_name: String,
}

/// A GatewayClass, of which only the metadata is read.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize)]
#[kube(group = "gateway.networking.k8s.io", version = "v1", kind = "GatewayClass", schema = "disabled")]
pub(crate) struct GatewayClassSpec {}
