//! Validates the regular expressions in a spec. Pure.
//!
//! Patterns are found by the names of their fields, so that a new field cannot be missed.

use capsule::pattern;
use serde::Serialize;
use serde_json::Value;

/// Returns the errors in the patterns of a spec, each with the path of its field.
pub(crate) fn errors(spec: &impl Serialize) -> Vec<String> {
    let mut found = Vec::new();
    // A spec from the API server can always be serialized.
    collect(&serde_json::to_value(spec).unwrap_or_default(), "spec", &mut found);
    found.iter().filter_map(|(path, pattern)| Some(format!("{path}: {}", error(pattern)?))).collect()
}

fn collect(value: &Value, path: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let inner = format!("{path}.{name}");
                match (name.as_str(), value) {
                    // spec.data has no schema.
                    ("data", _) if path == "spec" => {}
                    ("requiredMetadata", _) => collect_required(value, &inner, found),
                    (name, Value::String(pattern)) if name.ends_with("Regex") => {
                        found.push((inner, pattern.clone()));
                    }
                    _ => collect(value, &inner, found),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(item, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

/// Collects the values of maps from keys to patterns.
fn collect_required(metadata: &Value, path: &str, found: &mut Vec<(String, String)>) {
    for (map, entries) in metadata.as_object().into_iter().flatten() {
        for (key, pattern) in entries.as_object().into_iter().flatten() {
            let pattern = pattern.as_str().unwrap_or_default().to_owned();
            found.push((format!("{path}.{map}[{key}]"), pattern));
        }
    }
}

fn error(pattern: &str) -> Option<String> {
    let cause = pattern::compile(pattern).err()?;
    Some(format!("invalid pattern {pattern:?}: {cause}"))
}
