//! The limits of a single value. Pure.

use serde_json::Value;

use super::definition::{list, text};

/// May fall, and may go.
const LOWEST: [&str; 4] = ["minimum", "minLength", "minItems", "minProperties"];
/// May rise, and may go.
const HIGHEST: [&str; 4] = ["maximum", "maxLength", "maxItems", "maxProperties"];
/// May go, and may not change.
const FORMS: [&str; 3] = ["pattern", "format", "multipleOf"];
/// May go, and may not come.
const NARROWINGS: [&str; 3] = ["exclusiveMinimum", "exclusiveMaximum", "uniqueItems"];

/// Adds the limits that have become tighter.
pub(super) fn compare(old: &Value, new: &Value, at: &str, breaks: &mut Vec<String>) {
    let mut tightened = |keyword: &str| {
        let (before, now) = (text(old.get(keyword)), text(new.get(keyword)));
        breaks.push(format!("{at}: {keyword} was {before} and is {now}: values that were taken are refused"));
    };
    let number = |schema: &Value, keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    for keyword in LOWEST {
        if number(new, keyword).is_some_and(|now| number(old, keyword).is_none_or(|before| now > before)) {
            tightened(keyword);
        }
    }
    for keyword in HIGHEST {
        if number(new, keyword).is_some_and(|now| number(old, keyword).is_none_or(|before| now < before)) {
            tightened(keyword);
        }
    }
    for keyword in FORMS {
        if new.get(keyword).is_some_and(|now| old.get(keyword) != Some(now)) {
            tightened(keyword);
        }
    }
    let is = |schema: &Value, keyword: &str| schema.get(keyword) == Some(&Value::Bool(true));
    for keyword in NARROWINGS {
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
        let gone = list(before).iter().filter(|value| !list(now).contains(value));
        breaks.extend(gone.map(|value| format!("{at}: the value {} is no longer taken", text(Some(value)))));
    }
}
