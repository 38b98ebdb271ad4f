//! Tests the repair of a status that another client changes.

use std::{fmt::Debug, time::Duration};

use anyhow::{Context, Result, ensure};
use cluster::wait::eventually;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Applies each operation of a JSON patch to the status of an object, as `kubectl edit
/// --subresource=status` does. After each operation, waits until the original status is restored,
/// apart from times.
///
/// # Errors
/// Returns an error if an operation changes nothing, or if the status is not repaired in time.
pub async fn assert_repairs<K>(api: &Api<K>, name: &str, operations: &[Value]) -> Result<()>
where
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    let wanted = status(&api.get(name).await?);
    for operation in operations {
        let changed = patch_status(api, name, operation).await?;
        ensure!(status(&changed) != wanted, "{operation} changed nothing");
        let what = format!("the status of {name} to be repaired after {operation}");
        eventually(&what, PATIENCE, async || {
            let now = status(&api.get(name).await?);
            Ok(if now == wanted { Ok(()) } else { Err(now) })
        })
        .await?;
    }
    Ok(())
}

/// Returns operations that apply to any status: change a field, remove the first condition, add a
/// condition, and clear the status.
pub fn edits(path: &str, value: Value) -> Vec<Value> {
    let mut edits = vec![json!({ "op": "replace", "path": path, "value": value })];
    edits.extend([
        json!({ "op": "remove", "path": "/status/conditions/0" }),
        json!({ "op": "add", "path": "/status/conditions/-", "value": foreign_condition() }),
        json!({ "op": "remove", "path": "/status" }),
    ]);
    edits
}

/// Returns a condition of a type that no controller of this project sets.
pub fn foreign_condition() -> Value {
    json!({
        "type": "example.com/Audited", "status": "True", "reason": "Seen", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

/// Applies one operation of a JSON patch to the status subresource.
///
/// # Errors
/// Returns an error if the API server rejects the patch.
pub async fn patch_status<K>(api: &Api<K>, name: &str, operation: &Value) -> Result<K>
where
    K: Clone + Debug + DeserializeOwned,
{
    let patch = Patch::Json::<()>(serde_json::from_value(json!([operation]))?);
    let patched = api.patch_status(name, &PatchParams::default(), &patch).await;
    patched.with_context(|| format!("apply {operation} to the status of {name}"))
}

/// Returns the status without times and without the order of conditions. A condition that is set
/// again has a new time and can be the last.
fn status(object: &impl Serialize) -> Value {
    let object = serde_json::to_value(object).unwrap_or_default();
    let mut status = object.get("status").cloned().unwrap_or_default();
    normalize(&mut status);
    status
}

fn normalize(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("lastTransitionTime");
            fields.values_mut().for_each(normalize);
        }
        Value::Array(items) => {
            items.iter_mut().for_each(normalize);
            items.sort_by_key(|item| item.get("type").and_then(Value::as_str).map(str::to_owned));
        }
        _ => {}
    }
}
