//! What a schema must go on taking. Pure.

use serde_json::Value;

use super::{
    definition::{list, text},
    limits,
};

const UNKNOWN: &str = "x-kubernetes-preserve-unknown-fields";
const RULES: &str = "x-kubernetes-validations";
/// What says how lists and maps are merged by those who apply parts of an object.
const MERGES: [&str; 3] = ["x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"];
/// What is not looked into: it has to stay.
const COMPOSED: [&str; 4] = ["allOf", "anyOf", "oneOf", "not"];

/// Adds what the new schema does not take that the old one took. `at` is where they are.
pub(super) fn compare(old: &Value, new: &Value, at: &str, breaks: &mut Vec<String>) {
    if !takes_type(old, new) {
        breaks.push(format!("{at}: the type was {} and is {}", type_of(old), type_of(new)));
        return;
    }
    limits::compare(old, new, at, breaks);
    fields(old, new, at, breaks);
    for keyword in MERGES {
        let (before, now) = (old.get(keyword), new.get(keyword));
        if before != now {
            breaks.push(format!("{at}: {keyword} was {} and is {}", text(before), text(now)));
        }
    }
    for keyword in COMPOSED {
        if new.get(keyword).is_some_and(|now| old.get(keyword) != Some(now)) {
            breaks.push(format!("{at}: {keyword} is new or has changed"));
        }
    }
    let known: Vec<_> = list(old.get(RULES)).iter().filter_map(|rule| rule.get("rule")).collect();
    for rule in list(new.get(RULES)).iter().filter_map(|rule| rule.get("rule")) {
        if !known.contains(&rule) {
            breaks.push(format!(
                "{at}: the rule {} is new: objects that are there may not hold it",
                text(Some(rule))
            ));
        }
    }
    if let (Some(old), Some(new)) = (old.get("items"), new.get("items")) {
        compare(old, new, &format!("{at}[]"), breaks);
    }
}

/// The fields of an object, and the values of a map.
fn fields(old: &Value, new: &Value, at: &str, breaks: &mut Vec<String>) {
    let is_open = new.get(UNKNOWN) == Some(&Value::Bool(true));
    let properties = |schema: &Value| schema.get("properties").and_then(Value::as_object).cloned();
    let (before, now) = (properties(old).unwrap_or_default(), properties(new).unwrap_or_default());
    let values = new.get("additionalProperties");
    for (name, old) in &before {
        let at = join(at, name);
        match now.get(name).or_else(|| values.filter(|values| values.is_object())) {
            Some(new) => compare(old, new, &at, breaks),
            None if is_open || values == Some(&Value::Bool(true)) => {}
            None => breaks.push(format!("{at}: the field is gone: what people have written there is lost")),
        }
    }
    for name in list(new.get("required")) {
        let default = name.as_str().and_then(|name| now.get(name)?.get("default"));
        if !list(old.get("required")).contains(name) && default.is_none() {
            let at = join(at, &text(Some(name)));
            breaks.push(format!("{at}: the field is required and was not, and has no default"));
        }
    }
    if old.get(UNKNOWN) == Some(&Value::Bool(true)) && !is_open {
        breaks.push(format!("{at}: fields that the schema does not know are no longer kept"));
    }
    match (old.get("additionalProperties"), values) {
        (Some(old), Some(new)) if old.is_object() && new.is_object() => {
            compare(old, new, &format!("{at}.*"), breaks);
        }
        (Some(Value::Bool(false)) | None, _) | (_, Some(Value::Bool(true))) => {}
        (Some(_), _) if is_open => {}
        (Some(_), _) => {
            breaks.push(format!("{at}: keys and values of people's own are no longer taken as they were"));
        }
    }
}

/// Whether all values of the old type are of the new one.
fn takes_type(old: &Value, new: &Value) -> bool {
    let (old, new) = (type_of(old), type_of(new));
    old == new || new == ANY || matches!((old, new), ("integer", "number" | EITHER) | ("string", EITHER))
}

const ANY: &str = "anything";
const EITHER: &str = "integer or string";

fn type_of(schema: &Value) -> &str {
    if schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        return EITHER;
    }
    schema.get("type").and_then(Value::as_str).unwrap_or(ANY)
}

fn join(at: &str, field: &str) -> String {
    let separator = if at.contains(" .") { "." } else { " ." };
    format!("{at}{separator}{field}")
}
