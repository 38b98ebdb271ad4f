//! Takes literals out of what a report holds. Pure.
//!
//! Where people write values of their own, only what is on a short list stays: environment variables and arguments
//! that the manager itself has, and annotations that say nothing private. Names stay everywhere, so that a reader sees
//! what is set. In addition, whatever is called or looks like a credential goes, wherever it stands.

mod arguments;
mod harmless;

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

/// What stands in the place of what was taken out.
pub(crate) const REDACTED: &str = "REDACTED";

/// Fields that hold nothing but what people put there.
const CONTENTS: [&str; 5] = ["data", "stringData", "binaryData", "volumeAttributes", "bodyTemplate"];
/// Lists of arguments: of containers, of what is run in them, and of memcached.
const COMMAND_LINES: [&str; 3] = ["args", "command", "extraArgs"];

/// Returns an object without the records of field managers and without literals that may be secret.
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

/// Returns scheme, host and port: the rest of a URL may be as good as a password.
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
        Value::String(words) => *words = text(words),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn object_fields(fields: &mut Map<String, Value>) {
    fields.remove("managedFields");
    // Environment variables, headers of probes, and whatever else is a name with its value.
    let is_pair = fields.get("name").is_some_and(Value::is_string);
    let keeps_value = fields.get("name").and_then(Value::as_str).is_some_and(harmless::is_variable);
    for (key, field) in &mut *fields {
        match (key.as_str(), &mut *field) {
            (_, Value::Null) => {}
            ("annotations", Value::Object(annotations)) => self::annotations(annotations),
            (name, Value::Array(items)) if COMMAND_LINES.contains(&name) => arguments::redact(items),
            (name, field) if CONTENTS.contains(&name) || COMMAND_LINES.contains(&name) => {
                *field = REDACTED.into();
            }
            ("value", field) if is_pair && !keeps_value => *field = REDACTED.into(),
            ("path", Value::String(path)) => *path = text(path.split('?').next().unwrap_or_default()),
            (name, field) if is_credential(name) && (field.is_string() || field.is_number()) => {
                *field = REDACTED.into();
            }
            (_, field) => value(field),
        }
    }
}

/// Annotations are free text: some repeat whole manifests.
fn annotations(annotations: &mut Map<String, Value>) {
    for (key, value) in annotations {
        *value = match value.as_str().filter(|_| harmless::is_annotation(key)) {
            Some(words) => text(words).into(),
            None => REDACTED.into(),
        };
    }
}

/// Whether something of this name is a credential. What names a Secret, or a file, is none.
fn is_credential(name: &str) -> bool {
    static NAMES: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?i)(passw(or)?d|passphrase|pwd|token|secret|api[-_.]?key|access[-_.]?key|private[-_.]?key|credential|authorization)s?([-_.]?(value|data))?$").ok()
    });
    NAMES.as_ref().is_none_or(|names| names.is_match(name))
}

/// Returns a text without what looks like a credential, wherever in it that stands.
pub(crate) fn text(text: &str) -> String {
    static LOOKS: LazyLock<Option<[(Regex, &str); 9]>> = LazyLock::new(looks);
    let Some(looks) = LOOKS.as_ref() else { return REDACTED.to_owned() };
    looks.iter().fold(text.to_owned(), |text, (look, keep)| {
        look.replace_all(&text, |found: &Captures<'_>| {
            if found.name("variable").is_some_and(|name| harmless::is_variable(name.as_str())) {
                return found.get(0).map_or_else(String::new, |all| all.as_str().to_owned());
            }
            let mut kept = String::new();
            found.expand(keep, &mut kept);
            kept
        })
        .into_owned()
    })
}

/// How credentials look, and what is left of them.
fn looks() -> Option<[(Regex, &'static str); 9]> {
    let look = |look: &str| Regex::new(look).ok();
    Some([
        (look(r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)")?, REDACTED),
        (look(r"\beyJ[\w-]{4,}\.[\w-]+\.[\w-]*")?, REDACTED),
        (look(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{4,}")?, "$1 REDACTED"),
        // User and password before the host, and everything behind a question mark.
        (look(r#"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/@"']+@"#)?, "${1}REDACTED@"),
        (look(r#"(?i)\b([a-z][a-z0-9+.-]*://[^\s?"']+\?)[^\s"']+"#)?, "${1}REDACTED"),
        // Commands in a kubelet's Events: of hooks, of probes, and of containers that do not start.
        (look(r"(?i)\b((?:lifecycle )?hook \()\[[^\n]*?\]\)")?, "${1}REDACTED)"),
        (look(r#"(?i)\b((?:command|exec):? )(?:'[^'\n]*'|"[^"\n]*")"#)?, "${1}REDACTED"),
        // Environment variables.
        (
            look(r#"\b(?P<variable>[A-Z][A-Z0-9_]{2,})=(?:"[^"\n]*"|'[^'\n]*'|[^\s="',;}][^\s"',;}]*)"#)?,
            "${1}=REDACTED",
        ),
        (
            look(
                r#"(?i)((?:passw(?:or)?d|passphrase|pwd|token|secret|api[-_.]?key|access[-_.]?key|credential|authorization)s?["']?[ \t]*[:=][ \t]*["']?)[^\s"',;}]+"#,
            )?,
            "${1}REDACTED",
        ),
    ])
}

#[cfg(test)]
mod tests;
