//! What unit tests share.

use kube::api::DynamicObject;
use serde_json::Value;

/// An object with these fields, whatever is left out.
pub(crate) fn object(mut fields: Value) -> DynamicObject {
    if fields.get("metadata").is_none() {
        fields["metadata"] = serde_json::json!({});
    }
    serde_json::from_value(fields).unwrap()
}
