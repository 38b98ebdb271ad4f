//! Network access to the members.

use kube::KubeSchema;
use operator_core::network_policy::Peer;
use serde::{Deserialize, Serialize};

/// networkPolicy decides who may connect to PostgreSQL, if the cluster's network enforces
/// NetworkPolicies. The members always reach each other. The status API, which requires certificates,
/// and the metrics stay reachable for everybody.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.enabled || !has(self.clients) || size(self.clients) == 0")
    .message("networkPolicy.clients may be given only if networkPolicy.enabled is true"))]
pub struct NetworkAccess {
    /// enabled creates the NetworkPolicy. Without it, everybody may connect who is not denied by
    /// another policy.
    #[serde(default = "is_enabled")]
    pub enabled: bool,

    /// clients lists the peers that may connect. Defaults to all Pods of the namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub clients: Vec<Peer>,
}

impl Default for NetworkAccess {
    fn default() -> Self {
        Self { enabled: is_enabled(), clients: Vec::new() }
    }
}

fn is_enabled() -> bool {
    true
}
