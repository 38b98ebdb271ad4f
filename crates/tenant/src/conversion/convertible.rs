//! The parts of a Tenant that a conversion may change: labels, annotations, spec, and status.

use kube::ResourceExt;
use operator_core::admission::Version;
use serde_json::{Map, Value};

/// The parts in the metadata.
const METADATA: [&str; 2] = ["labels", "annotations"];
/// The parts at the top level.
const PARTS: [&str; 2] = ["spec", "status"];

/// A version of the Tenant.
pub(super) trait Convertible: Version + Clone + ResourceExt {}

impl<V: Version + Clone + ResourceExt> Convertible for V {}

/// Returns labels, annotations, spec, and status.
pub(super) fn convertible_parts<V: Convertible>(object: &V) -> serde_json::Result<Value> {
    Ok(Value::Object(take_parts(&mut serde_json::to_value(object)?)))
}

/// Moves the parts out of an object.
fn take_parts(object: &mut Value) -> Map<String, Value> {
    let mut parts = Map::new();
    let mut take = |from: Option<&mut Value>, name: &str, is_set: fn(&Value) -> bool| {
        if let Some(value) = from.and_then(|from| from.get_mut(name)).filter(|value| is_set(value)) {
            parts.insert(name.to_owned(), value.take());
        }
    };
    // Empty metadata equals absent metadata.
    let is_set =
        |value: &Value| !value.is_null() && value.as_object().is_none_or(|fields| !fields.is_empty());
    for name in METADATA {
        take(object.get_mut("metadata"), name, is_set);
    }
    for name in PARTS {
        take(Some(&mut *object), name, |value| !value.is_null());
    }
    parts
}

/// Returns the object with transformed parts.
pub(super) fn transform<V: Convertible>(
    object: &V,
    change: impl Fn(Value) -> Value,
) -> serde_json::Result<V> {
    let mut object = serde_json::to_value(object)?;
    let mut parts = change(Value::Object(take_parts(&mut object)));
    let mut take = |name: &str| parts.get_mut(name).map(Value::take);
    let (labels, annotations) = (take("labels"), take("annotations"));
    let parts = PARTS.map(|name| (name, take(name)));
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        set_or_remove(metadata, "labels", labels);
        set_or_remove(metadata, "annotations", annotations);
    }
    if let Some(fields) = object.as_object_mut() {
        for (name, value) in parts {
            set_or_remove(fields, name, value);
        }
    }
    serde_json::from_value(object)
}

fn set_or_remove(fields: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(fields.insert(name.to_owned(), value)),
        None => drop(fields.remove(name)),
    }
}
