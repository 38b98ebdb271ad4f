//! Objects for tests.

use serde_json::{Value, json};

use super::PostgresCluster;

/// Returns a cluster with this spec, as the API server returns it.
pub(crate) fn cluster(spec: &Value) -> PostgresCluster {
    serde_json::from_value(json!({
        "apiVersion": "lukeb0nd.com/v1", "kind": "PostgresCluster",
        "metadata": {"name": "db", "namespace": "shop", "uid": "u-1", "generation": 1},
        "spec": spec,
    }))
    .unwrap()
}
