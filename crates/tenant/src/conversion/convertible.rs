//! What a Tenant says, whatever its version: the parts that a conversion may change.

use kube::ResourceExt;
use operator_core::admission::Version;
use serde_json::{Map, Value};

/// Where labels and annotations are said; spec and status are said where they are.
const METADATA: [&str; 2] = ["labels", "annotations"];
const PARTS: [&str; 2] = ["spec", "status"];

/// A version of the Tenant.
pub(super) trait Convertible: Version + Clone + ResourceExt {}

impl<V: Version + Clone + ResourceExt> Convertible for V {}

/// Labels, annotations, spec and status.
pub(super) fn convertible_parts<V: Convertible>(object: &V) -> serde_json::Result<Value> {
    Ok(Value::Object(pick(&mut serde_json::to_value(object)?)))
}

/// Takes the parts out of an object.
fn pick(object: &mut Value) -> Map<String, Value> {
    let mut said = Map::new();
    let mut take = |from: Option<&mut Value>, name: &str, says: fn(&Value) -> bool| {
        if let Some(value) = from.and_then(|from| from.get_mut(name)).filter(|value| says(value)) {
            said.insert(name.to_owned(), value.take());
        }
    };
    // A part that says nothing is as one that is not there.
    let says = |value: &Value| !value.is_null() && value.as_object().is_none_or(|fields| !fields.is_empty());
    for name in METADATA {
        take(object.get_mut("metadata"), name, says);
    }
    for name in PARTS {
        take(Some(&mut *object), name, |value| !value.is_null());
    }
    said
}

/// The object with other words.
pub(super) fn change<V: Convertible>(object: &V, change: impl Fn(Value) -> Value) -> serde_json::Result<V> {
    let mut object = serde_json::to_value(object)?;
    let mut said = change(Value::Object(pick(&mut object)));
    let mut take = |name: &str| said.get_mut(name).map(Value::take);
    let (labels, annotations) = (take("labels"), take("annotations"));
    let parts = PARTS.map(|name| (name, take(name)));
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        put(metadata, "labels", labels);
        put(metadata, "annotations", annotations);
    }
    if let Some(fields) = object.as_object_mut() {
        for (name, value) in parts {
            put(fields, name, value);
        }
    }
    serde_json::from_value(object)
}

fn put(fields: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(fields.insert(name.to_owned(), value)),
        None => drop(fields.remove(name)),
    }
}
