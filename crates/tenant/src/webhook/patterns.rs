//! The patterns in a spec. Pure.
//!
//! Found by the names of their fields wherever they stand, so that none can be forgotten.

use regex::RegexBuilder;
use serde_json::Value;

use crate::api::v1beta2::TenantSpec;

/// The largest program that a pattern may become, in bytes: it is kept for as long as the Tenant is there.
const LARGEST: usize = 1 << 20;

/// What is wrong with the patterns of a spec, each with the path of its field.
pub(super) fn faults(spec: &TenantSpec) -> Vec<String> {
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
    let why = match RegexBuilder::new(pattern).size_limit(LARGEST).build() {
        Ok(_) => return None,
        Err(regex::Error::CompiledTooBig(_)) => {
            "it is too large; use fewer or smaller repetitions".to_owned()
        }
        // The parser draws the place on lines of its own; the last line has the words.
        Err(error) => {
            let text = error.to_string();
            let words = text.lines().last().unwrap_or_default().trim();
            words.strip_prefix("error: ").unwrap_or(words).to_owned()
        }
    };
    Some(format!("the pattern {pattern:?} cannot be used: {why}"))
}
