//! PostgresClusters for unit tests.

use ::postgres::PostgresCluster;
use serde_json::{Value, json};

/// Returns a cluster without status.
pub(super) fn cluster() -> PostgresCluster {
    of(&Value::Null)
}

/// Returns a cluster of these members, which are ready. The first one is the primary.
pub(super) fn available(members: &[&str]) -> PostgresCluster {
    let instances: Vec<_> = members
        .iter()
        .zip(1..)
        .map(|(name, serial)| {
            let role = if serial == 1 { "primary" } else { "replica" };
            json!({ "name": name, "serial": serial, "role": role, "ready": true, "joined": true })
        })
        .collect();
    of(&json!({
        "phase": "Running", "size": members.len(), "readyMembers": members.len(), "instances": instances,
        "primary": { "current": members[0], "target": members[0], "epoch": 1 },
        "currentVersion": "17.6",
        "conditions": [{
            "type": "Available", "status": "True", "reason": "AsSpecified", "message": "the primary takes writes",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    }))
}

fn of(status: &Value) -> PostgresCluster {
    serde_json::from_value(json!({
        "apiVersion": "lukeb0nd.com/v1", "kind": "PostgresCluster",
        "metadata": { "name": "db", "namespace": "shop" },
        "spec": { "size": 3 }, "status": status,
    }))
    .unwrap()
}
