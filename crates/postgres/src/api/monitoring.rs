//! Metrics of queries that users write.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// Metrics of a PostgresCluster.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Monitoring {
    /// queriesConfigMap is the name of a ConfigMap in the namespace. Its keys contain queries, whose rows
    /// each member serves as metrics. Another name replaces the Pods one after the other. Other content takes
    /// effect within about a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')")
        .message("queriesConfigMap must be the name of a ConfigMap"))]
    pub queries_config_map: Option<String>,
}
