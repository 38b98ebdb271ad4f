//! Restrictions of Gateways.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::DefaultAllowedList;

/// GatewayOptions restricts Gateways.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayOptions {
    /// allowedClasses lists the GatewayClasses that Gateways may use, and the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_classes: Option<DefaultAllowedList>,
}
