//! What values a field takes, in words. Pure.

use serde_json::Value;

use super::code;

/// Keywords of the least and the most, and what they count.
const LIMITS: [(&str, &str, &str); 4] = [
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", " characters"),
    ("minItems", "maxItems", " entries"),
    ("minProperties", "maxProperties", " keys"),
];

const EITHER: &str = "integer or string";
const ANYTHING: &str = "anything";

/// The type of a field and its limits, for a cell of a table.
pub(super) fn words(field: &Value, is_required: bool) -> String {
    let mut words = vec![type_of(field)];
    for (least, most, what) in LIMITS {
        let number = |keyword| field.get(keyword).and_then(Value::as_number).map(whole);
        words.extend(match (number(least), number(most)) {
            (Some(least), Some(most)) => Some(format!("{least} to {most}{what}")),
            (Some(least), None) => Some(format!("at least {least}{what}")),
            (None, Some(most)) => Some(format!("at most {most}{what}")),
            (None, None) => None,
        });
    }
    if let Some(pattern) = field.get("pattern").and_then(Value::as_str) {
        words.push(format!("matching {}", code(pattern)));
    }
    let values: Vec<_> = entries(field, "enum").map(|value| code(&plain(value))).collect();
    if !values.is_empty() {
        words.push(format!("one of {}", values.join(" ")));
    }
    let keys: Vec<_> =
        entries(field, "x-kubernetes-list-map-keys").map(|value| code(&plain(value))).collect();
    if !keys.is_empty() {
        words.push(format!("one for each {}", keys.join(" and ")));
    }
    if is_required {
        words.push("required".to_owned());
    }
    words.join(", ")
}

/// The rules of a field that its type and limits do not say, each in its message, or as it is where it has none.
pub(super) fn rules(field: &Value) -> impl Iterator<Item = &str> {
    entries(field, "x-kubernetes-validations")
        .filter_map(|rule| rule.get("message").or_else(|| rule.get("rule")).and_then(Value::as_str))
}

fn type_of(field: &Value) -> String {
    if field.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        return EITHER.to_owned();
    }
    let inner = |holds| field.get(holds).filter(|inner| inner.is_object()).map(type_of);
    match field.get("type").and_then(Value::as_str) {
        Some("array") => format!("list of {}", inner("items").map_or_else(|| ANYTHING.to_owned(), plural)),
        Some("object") => match inner("additionalProperties") {
            Some(values) => format!("map to {}", plural(values)),
            None => "object".to_owned(),
        },
        Some("string") if field.get("format").and_then(Value::as_str) == Some("date-time") => {
            "time".to_owned()
        }
        Some(name) => name.to_owned(),
        None => ANYTHING.to_owned(),
    }
}

fn plural(name: String) -> String {
    match name.as_str() {
        EITHER => "integers or strings".to_owned(),
        ANYTHING => name,
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

/// A number as people write it: `1.0` is `1`.
fn whole(number: &serde_json::Number) -> String {
    let text = number.to_string();
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn types_and_limits_are_said_in_words() {
        for (field, says) in [
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
            assert_eq!(words(&field, false), says);
        }
        assert_eq!(words(&json!({"type": "boolean"}), true), "boolean, required");
    }

    #[test]
    fn a_rule_is_told_by_its_message() {
        let field = json!({"x-kubernetes-validations": [{"rule": "self > 1", "message": "more than one"}, {"rule": "self < 9"}]});
        assert_eq!(rules(&field).collect::<Vec<_>>(), ["more than one", "self < 9"]);
    }
}
