//! The patterns in a spec. Pure.
//!
//! Found by the names of their fields wherever they stand, so that none can be forgotten.

use serde::Serialize;
use serde_json::Value;

use crate::pattern;

/// What is wrong with the patterns of a spec, each with the path of its field.
pub(crate) fn faults(spec: &impl Serialize) -> Vec<String> {
    let mut found = Vec::new();
    // What cannot be written as JSON has come from no API server.
    collect(&serde_json::to_value(spec).unwrap_or_default(), "spec", &mut found);
    found.iter().filter_map(|(path, pattern)| Some(format!("{path}: {}", fault(pattern)?))).collect()
}

fn collect(value: &Value, path: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let inner = format!("{path}.{name}");
                match (name.as_str(), value) {
                    // Data of any shape is nobody's pattern.
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
            for (place, item) in items.iter().enumerate() {
                collect(item, &format!("{path}[{place}]"), found);
            }
        }
        _ => {}
    }
}

/// Maps of keys to patterns.
fn collect_required(metadata: &Value, path: &str, found: &mut Vec<(String, String)>) {
    for (map, entries) in metadata.as_object().into_iter().flatten() {
        for (key, pattern) in entries.as_object().into_iter().flatten() {
            let pattern = pattern.as_str().unwrap_or_default().to_owned();
            found.push((format!("{path}.{map}[{key}]"), pattern));
        }
    }
}

/// Why a pattern cannot be used, if so.
fn fault(pattern: &str) -> Option<String> {
    let why = pattern::compile(pattern).err()?;
    Some(format!("the pattern {pattern:?} cannot be used: {why}"))
}
