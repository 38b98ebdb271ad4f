//! Objects for unit tests.

use kube::api::DynamicObject;
use serde_json::Value;

/// Returns an object with these fields. `metadata` is optional.
pub(crate) fn object(mut fields: Value) -> DynamicObject {
    if fields.get("metadata").is_none() {
        fields["metadata"] = serde_json::json!({});
    }
    serde_json::from_value(fields).unwrap()
}
