//! Redaction of the report. Pure.
//!
//! Values that users write are removed unless they are on an allowlist: environment variables and
//! arguments of the manager, and some annotations. Names are kept, so that the reader sees what is
//! set. In addition, everything with the name or the pattern of a credential is removed.

mod allowlist;
mod arguments;

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

/// Replacement for removed values.
pub(crate) const REDACTED: &str = "REDACTED";

/// Fields whose whole content comes from users.
const USER_CONTENT: [&str; 5] = ["data", "stringData", "binaryData", "volumeAttributes", "bodyTemplate"];
/// Lists of arguments: of containers, probes, lifecycle hooks, and memcached.
const COMMAND_LINES: [&str; 3] = ["args", "command", "extraArgs"];

/// Returns an object without managed fields and without values that can be secret.
pub(crate) fn object(mut object: Value) -> Value {
    if let Some(hooks) = object.pointer_mut("/spec/hooks").and_then(Value::as_array_mut) {
        for url in hooks.iter_mut().filter_map(|hook| hook.get_mut("url")) {
            *url = url.as_str().map_or(Value::Null, origin);
        }
    }
    if let Some(free_text) = object.pointer_mut("/spec/foo") {
        *free_text = REDACTED.into();
    }
    value(&mut object);
    object
}

/// Returns scheme, host, and port of a URL. The rest can be a credential.
fn origin(url: &str) -> Value {
    let parsed = url.parse::<http::Uri>().ok();
    let parts = parsed.as_ref().and_then(|uri| Some((uri.scheme_str()?, uri.host()?, uri.port())));
    match parts {
        Some((scheme, host, Some(port))) => format!("{scheme}://{host}:{port}/{REDACTED}").into(),
        Some((scheme, host, None)) => format!("{scheme}://{host}/{REDACTED}").into(),
        None => REDACTED.into(),
    }
}

fn value(value: &mut Value) {
    match value {
        Value::Object(fields) => object_fields(fields),
        Value::Array(items) => items.iter_mut().for_each(self::value),
        Value::String(string) => *string = text(string),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn object_fields(fields: &mut Map<String, Value>) {
    fields.remove("managedFields");
    // Pairs of a name and a value: environment variables, headers of probes, and others.
    let is_pair = fields.get("name").is_some_and(Value::is_string);
    let is_allowed = fields.get("name").and_then(Value::as_str).is_some_and(allowlist::is_variable);
    for (key, field) in &mut *fields {
        match (key.as_str(), &mut *field) {
            (_, Value::Null) => {}
            ("annotations", Value::Object(annotations)) => self::annotations(annotations),
            (name, Value::Array(items)) if COMMAND_LINES.contains(&name) => arguments::redact(items),
            (name, field) if USER_CONTENT.contains(&name) || COMMAND_LINES.contains(&name) => {
                *field = REDACTED.into();
            }
            ("value", field) if is_pair && !is_allowed => *field = REDACTED.into(),
            ("path", Value::String(path)) => *path = text(path.split('?').next().unwrap_or_default()),
            (name, field) if is_credential(name) && (field.is_string() || field.is_number()) => {
                *field = REDACTED.into();
            }
            (_, field) => value(field),
        }
    }
}

/// Redacts annotations. Some contain whole manifests.
fn annotations(annotations: &mut Map<String, Value>) {
    for (key, value) in annotations {
        *value = match value.as_str().filter(|_| allowlist::is_annotation(key)) {
            Some(string) => text(string).into(),
            None => REDACTED.into(),
        };
    }
}

/// Returns whether a field with this name holds a credential. Names of Secrets and files are none.
fn is_credential(name: &str) -> bool {
    static NAMES: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?i)(passw(or)?d|passphrase|pwd|token|secret|api[-_.]?key|access[-_.]?key|private[-_.]?key|credential|authorization)s?([-_.]?(value|data))?$").ok()
    });
    NAMES.as_ref().is_none_or(|names| names.is_match(name))
}

/// Returns a text without substrings that match the pattern of a credential.
pub(crate) fn text(text: &str) -> String {
    static PATTERNS: LazyLock<Option<[(Regex, &str); 9]>> = LazyLock::new(credential_patterns);
    let Some(patterns) = PATTERNS.as_ref() else { return REDACTED.to_owned() };
    patterns.iter().fold(text.to_owned(), |text, (pattern, replacement)| {
        pattern
            .replace_all(&text, |found: &Captures<'_>| {
                if found.name("variable").is_some_and(|name| allowlist::is_variable(name.as_str())) {
                    return found.get(0).map_or_else(String::new, |all| all.as_str().to_owned());
                }
                let mut redacted = String::new();
                found.expand(replacement, &mut redacted);
                redacted
            })
            .into_owned()
    })
}

/// Returns the patterns of credentials with their replacements.
fn credential_patterns() -> Option<[(Regex, &'static str); 9]> {
    let pattern = |pattern: &str| Regex::new(pattern).ok();
    Some([
        (
            pattern(r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)")?,
            REDACTED,
        ),
        (pattern(r"\beyJ[\w-]{4,}\.[\w-]+\.[\w-]*")?, REDACTED),
        (pattern(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{4,}")?, "$1 REDACTED"),
        // User name and password of a URL, and its query.
        (pattern(r#"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/@"']+@"#)?, "${1}REDACTED@"),
        (pattern(r#"(?i)\b([a-z][a-z0-9+.-]*://[^\s?"']+\?)[^\s"']+"#)?, "${1}REDACTED"),
        // Commands in Events of a kubelet: lifecycle hooks, probes, containers that do not start.
        (pattern(r"(?i)\b((?:lifecycle )?hook \()\[[^\n]*?\]\)")?, "${1}REDACTED)"),
        (pattern(r#"(?i)\b((?:command|exec):? )(?:'[^'\n]*'|"[^"\n]*")"#)?, "${1}REDACTED"),
        // Environment variables.
        (
            pattern(r#"\b(?P<variable>[A-Z][A-Z0-9_]{2,})=(?:"[^"\n]*"|'[^'\n]*'|[^\s="',;}][^\s"',;}]*)"#)?,
            "${1}=REDACTED",
        ),
        (
            pattern(
                r#"(?i)((?:passw(?:or)?d|passphrase|pwd|token|secret|api[-_.]?key|access[-_.]?key|credential|authorization)s?["']?[ \t]*[:=][ \t]*["']?)[^\s"',;}]+"#,
            )?,
            "${1}REDACTED",
        ),
    ])
}

#[cfg(test)]
mod tests;
