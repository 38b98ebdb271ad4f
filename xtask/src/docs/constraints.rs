//! Types and limits of fields as text.

use serde_json::Value;

use super::code;

/// Keywords of a minimum and a maximum, and their unit.
const LIMITS: [(&str, &str, &str); 4] = [
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", " characters"),
    ("minItems", "maxItems", " entries"),
    ("minProperties", "maxProperties", " keys"),
];

const INT_OR_STRING: &str = "integer or string";
const ANY: &str = "anything";

/// Returns the type of a field and its limits, for a table cell.
pub(super) fn describe(field: &Value, is_required: bool) -> String {
    let mut parts = vec![type_of(field)];
    for (minimum, maximum, unit) in LIMITS {
        let number = |keyword| field.get(keyword).and_then(Value::as_number).map(shortest);
        parts.extend(match (number(minimum), number(maximum)) {
            (Some(minimum), Some(maximum)) => Some(format!("{minimum} to {maximum}{unit}")),
            (Some(minimum), None) => Some(format!("at least {minimum}{unit}")),
            (None, Some(maximum)) => Some(format!("at most {maximum}{unit}")),
            (None, None) => None,
        });
    }
    if let Some(pattern) = field.get("pattern").and_then(Value::as_str) {
        parts.push(format!("matching {}", code(pattern)));
    }
    let values: Vec<_> = entries(field, "enum").map(|value| code(&plain(value))).collect();
    if !values.is_empty() {
        parts.push(format!("one of {}", values.join(" ")));
    }
    let keys: Vec<_> =
        entries(field, "x-kubernetes-list-map-keys").map(|value| code(&plain(value))).collect();
    if !keys.is_empty() {
        parts.push(format!("one for each {}", keys.join(" and ")));
    }
    if is_required {
        parts.push("required".to_owned());
    }
    parts.join(", ")
}

/// Returns the CEL rules of a field: the message of each, or its expression if it has no message.
pub(super) fn rules(field: &Value) -> impl Iterator<Item = &str> {
    entries(field, "x-kubernetes-validations")
        .filter_map(|rule| rule.get("message").or_else(|| rule.get("rule")).and_then(Value::as_str))
}

fn type_of(field: &Value) -> String {
    if field.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        return INT_OR_STRING.to_owned();
    }
    let inner = |holds| field.get(holds).filter(|inner| inner.is_object()).map(type_of);
    match field.get("type").and_then(Value::as_str) {
        Some("array") => format!("list of {}", inner("items").map_or_else(|| ANY.to_owned(), plural)),
        Some("object") => match inner("additionalProperties") {
            Some(values) => format!("map to {}", plural(values)),
            None => "object".to_owned(),
        },
        Some("string") if field.get("format").and_then(Value::as_str) == Some("date-time") => {
            "time".to_owned()
        }
        Some(name) => name.to_owned(),
        None => ANY.to_owned(),
    }
}

fn plural(name: String) -> String {
    match name.as_str() {
        INT_OR_STRING => "integers or strings".to_owned(),
        ANY => name,
        _ if name.starts_with("list of") || name.starts_with("map to") => name.replacen(' ', "s ", 1),
        _ => format!("{name}s"),
    }
}

fn entries<'a>(field: &'a Value, keyword: &str) -> impl Iterator<Item = &'a Value> {
    field.get(keyword).and_then(Value::as_array).into_iter().flatten()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the shortest form of a number: `1` for `1.0`.
fn shortest(number: &serde_json::Number) -> String {
    let text = number.to_string();
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn describes_types_and_limits() {
        for (field, expected) in [
            (json!({"type": "integer", "minimum": 1.0, "maximum": 10}), "integer, 1 to 10"),
            (
                json!({"type": "string", "enum": ["a", "b"], "maxLength": 3}),
                "string, at most 3 characters, one of `a` `b`",
            ),
            (
                json!({"type": "array", "items": {"type": "string"}, "minItems": 1}),
                "list of strings, at least 1 entries",
            ),
            (
                json!({"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}}),
                "map to integers or strings",
            ),
            (json!({"type": "string", "format": "date-time"}), "time"),
            (json!({}), "anything"),
        ] {
            assert_eq!(describe(&field, false), expected);
        }
        assert_eq!(describe(&json!({"type": "boolean"}), true), "boolean, required");
    }

    #[test]
    fn rule_without_message_is_shown_as_expression() {
        let field = json!({"x-kubernetes-validations": [{"rule": "self > 1", "message": "more than one"}, {"rule": "self < 9"}]});
        assert_eq!(rules(&field).collect::<Vec<_>>(), ["more than one", "self < 9"]);
    }
}
