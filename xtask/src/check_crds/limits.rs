//! Compatibility of the limits of a value.

use serde_json::Value;

use super::definition::{list, text};

/// Keywords that can decrease or be removed.
const MINIMUMS: [&str; 4] = ["minimum", "minLength", "minItems", "minProperties"];
/// Keywords that can increase or be removed.
const MAXIMUMS: [&str; 4] = ["maximum", "maxLength", "maxItems", "maxProperties"];
/// Keywords that can be removed but not changed.
const FORMATS: [&str; 3] = ["pattern", "format", "multipleOf"];
/// Flags that can be removed but not added.
const FLAGS: [&str; 3] = ["exclusiveMinimum", "exclusiveMaximum", "uniqueItems"];

/// Appends the limits that became stricter.
pub(super) fn compare(old: &Value, new: &Value, at: &str, changes: &mut Vec<String>) {
    let mut tightened = |keyword: &str| {
        let (before, now) = (text(old.get(keyword)), text(new.get(keyword)));
        changes.push(format!(
            "{at}: {keyword} changed from {before} to {now}: values that were valid are rejected"
        ));
    };
    let number = |schema: &Value, keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    for keyword in MINIMUMS {
        if number(new, keyword).is_some_and(|now| number(old, keyword).is_none_or(|before| now > before)) {
            tightened(keyword);
        }
    }
    for keyword in MAXIMUMS {
        if number(new, keyword).is_some_and(|now| number(old, keyword).is_none_or(|before| now < before)) {
            tightened(keyword);
        }
    }
    for keyword in FORMATS {
        if new.get(keyword).is_some_and(|now| old.get(keyword) != Some(now)) {
            tightened(keyword);
        }
    }
    let is = |schema: &Value, keyword: &str| schema.get(keyword) == Some(&Value::Bool(true));
    for keyword in FLAGS {
        if is(new, keyword) && !is(old, keyword) {
            tightened(keyword);
        }
    }
    if is(old, "nullable") && !is(new, "nullable") {
        tightened("nullable");
    }
    let (before, now) = (old.get("enum"), new.get("enum"));
    if before.is_none() && now.is_some() {
        tightened("enum");
    } else if now.is_some() {
        let removed = list(before).iter().filter(|value| !list(now).contains(value));
        changes
            .extend(removed.map(|value| format!("{at}: the value {} is no longer valid", text(Some(value)))));
    }
}
