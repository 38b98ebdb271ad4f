//! Network access to a Memcached.

use kube::KubeSchema;
use operator_core::network_policy::Peer;
use serde::{Deserialize, Serialize};

/// networkPolicy lists the peers that may reach the Pods. It denies all others if the cluster's
/// network enforces NetworkPolicies.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkAccess {
    /// from lists the peers that may connect to memcached and to the exporter, if there is one.
    #[schemars(length(min = 1, max = 32))]
    pub from: Vec<Peer>,

    /// metricsFrom lists additional peers that may connect to the exporter only, for example
    /// Prometheus.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub metrics_from: Vec<Peer>,
}
