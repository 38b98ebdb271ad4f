//! Compatibility of schemas.

use serde_json::Value;

use super::{
    definition::{list, text},
    limits,
};

const UNKNOWN: &str = "x-kubernetes-preserve-unknown-fields";
const RULES: &str = "x-kubernetes-validations";
/// Keywords that define how server-side apply merges lists and maps.
const MERGE_KEYS: [&str; 3] =
    ["x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"];
/// Keywords that are not analyzed, and therefore must not change.
const COMPOSED: [&str; 4] = ["allOf", "anyOf", "oneOf", "not"];

/// Appends the breaking changes of a schema. `at` is its location.
pub(super) fn compare(old: &Value, new: &Value, at: &str, changes: &mut Vec<String>) {
    if !is_compatible_type(old, new) {
        changes.push(format!("{at}: the type changed from {} to {}", type_of(old), type_of(new)));
        return;
    }
    limits::compare(old, new, at, changes);
    let (before, now) = (old.get("default"), new.get("default"));
    if before.is_some() && before != now {
        changes.push(format!(
            "{at}: default changed from {} to {}: objects that do not set the field change",
            text(before),
            text(now)
        ));
    }
    fields(old, new, at, changes);
    for keyword in MERGE_KEYS {
        let (before, now) = (old.get(keyword), new.get(keyword));
        if before != now {
            changes.push(format!("{at}: {keyword} changed from {} to {}", text(before), text(now)));
        }
    }
    for keyword in COMPOSED {
        if new.get(keyword).is_some_and(|now| old.get(keyword) != Some(now)) {
            changes.push(format!("{at}: {keyword} was added or changed"));
        }
    }
    let known: Vec<_> = list(old.get(RULES)).iter().filter_map(|rule| rule.get("rule")).collect();
    for rule in list(new.get(RULES)).iter().filter_map(|rule| rule.get("rule")) {
        if !known.contains(&rule) {
            changes.push(format!(
                "{at}: the rule {} was added: existing objects may violate it",
                text(Some(rule))
            ));
        }
    }
    if let (Some(old), Some(new)) = (old.get("items"), new.get("items")) {
        compare(old, new, &format!("{at}[]"), changes);
    }
}

/// Appends the breaking changes of the fields of an object and the values of a map.
fn fields(old: &Value, new: &Value, at: &str, changes: &mut Vec<String>) {
    let is_open = new.get(UNKNOWN) == Some(&Value::Bool(true));
    let properties = |schema: &Value| schema.get("properties").and_then(Value::as_object).cloned();
    let (before, now) = (properties(old).unwrap_or_default(), properties(new).unwrap_or_default());
    let values = new.get("additionalProperties");
    for (name, old) in &before {
        let at = join(at, name);
        match now.get(name).or_else(|| values.filter(|values| values.is_object())) {
            Some(new) => compare(old, new, &at, changes),
            None if is_open || values == Some(&Value::Bool(true)) => {}
            None => changes.push(format!("{at}: the field was removed: its values are lost")),
        }
    }
    for name in list(new.get("required")) {
        let default = name.as_str().and_then(|name| now.get(name)?.get("default"));
        if !list(old.get("required")).contains(name) && default.is_none() {
            let at = join(at, &text(Some(name)));
            changes.push(format!("{at}: the field became required and has no default"));
        }
    }
    if old.get(UNKNOWN) == Some(&Value::Bool(true)) && !is_open {
        changes.push(format!("{at}: unknown fields are no longer preserved"));
    }
    match (old.get("additionalProperties"), values) {
        (Some(old), Some(new)) if old.is_object() && new.is_object() => {
            compare(old, new, &format!("{at}.*"), changes);
        }
        (Some(Value::Bool(false)) | None, _) | (_, Some(Value::Bool(true))) => {}
        (Some(_), _) if is_open => {}
        (Some(_), _) => {
            changes.push(format!("{at}: arbitrary keys and values are no longer valid"));
        }
    }
}

/// Returns whether all values of the old type are valid for the new type.
fn is_compatible_type(old: &Value, new: &Value) -> bool {
    let (old, new) = (type_of(old), type_of(new));
    old == new
        || new == ANY
        || matches!((old, new), ("integer", "number" | INT_OR_STRING) | ("string", INT_OR_STRING))
}

const ANY: &str = "anything";
const INT_OR_STRING: &str = "integer or string";

fn type_of(schema: &Value) -> &str {
    if schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        return INT_OR_STRING;
    }
    schema.get("type").and_then(Value::as_str).unwrap_or(ANY)
}

fn join(at: &str, field: &str) -> String {
    let separator = if at.contains(" .") { "." } else { " ." };
    format!("{at}{separator}{field}")
}
