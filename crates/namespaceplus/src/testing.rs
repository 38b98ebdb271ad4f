//! Test fixtures.

use serde_json::{Value, json};

use crate::api::NamespacePlus;

/// Returns the NamespacePlus `teams/blue` with this spec.
pub(crate) fn object(spec: Value) -> NamespacePlus {
    serde_json::from_value(json!({
        "apiVersion": "mygroup.my.domain/v1",
        "kind": "NamespacePlus",
        "metadata": {"name": "blue", "namespace": "teams", "uid": "1", "generation": 1},
        "spec": spec,
    }))
    .unwrap()
}
