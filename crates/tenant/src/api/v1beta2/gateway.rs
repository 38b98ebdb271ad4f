//! What Gateways may use.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::DefaultAllowedList;

/// What Gateways may use.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayOptions {
    /// The GatewayClasses that Gateways may use, and the one for Gateways that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_classes: Option<DefaultAllowedList>,
}
