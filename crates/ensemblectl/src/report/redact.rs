//! Taking out whatever looks like a credential. Pure.
//!
//! What is known to carry secrets goes as a whole: the URL of a hook behind its host, what a hook sends, the copy of a
//! manifest that kubectl keeps. Everything else goes by what it is called, and, in any text, by how it looks.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value;

/// What stands in the place of what was taken out.
pub(crate) const REDACTED: &str = "REDACTED";

/// Annotations that repeat a whole manifest.
const COPIES: [&str; 1] = ["kubectl.kubernetes.io/last-applied-configuration"];

/// An object without the bookkeeping of field managers and without credentials.
pub(crate) fn object(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.retain(|key, _| !COPIES.contains(&key.as_str()));
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    if let Some(hooks) = object.pointer_mut("/spec/hooks").and_then(Value::as_array_mut) {
        hooks.iter_mut().for_each(hook);
    }
    value(&mut object);
    object
}

/// A call to another system: where it goes may be as good as a password.
fn hook(hook: &mut Value) {
    if let Some(url) = hook.get_mut("url") {
        *url = url.as_str().map_or(Value::Null, origin);
    }
    if let Some(body) = hook.get_mut("bodyTemplate") {
        *body = REDACTED.into();
    }
}

/// Scheme, host and port.
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
        Value::Object(fields) => {
            let is_named = fields.get("name").and_then(Value::as_str).is_some_and(is_credential);
            for (key, field) in fields.iter_mut() {
                let is_secret = is_credential(key) || (is_named && key == "value");
                if is_secret && (field.is_string() || field.is_number()) {
                    *field = REDACTED.into();
                } else {
                    self::value(field);
                }
            }
        }
        Value::Array(items) => {
            let mut follows_flag = false;
            for item in items {
                let is_flag = item
                    .as_str()
                    .is_some_and(|word| word.starts_with('-') && !word.contains('=') && is_credential(word));
                if follows_flag && item.is_string() {
                    *item = REDACTED.into();
                } else {
                    self::value(item);
                }
                follows_flag = is_flag;
            }
        }
        Value::String(words) => *words = text(words),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether something of this name is a credential. What names a Secret, or a file, is none.
fn is_credential(name: &str) -> bool {
    static NAMES: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?i)(passw(or)?d|passphrase|pwd|token|secret|api[-_.]?key|access[-_.]?key|private[-_.]?key|credential|authorization)s?([-_.]?(value|data))?$").ok()
    });
    NAMES.as_ref().is_none_or(|names| names.is_match(name))
}

/// A text without what looks like a credential, wherever in it that stands.
pub(crate) fn text(text: &str) -> String {
    static LOOKS: LazyLock<Option<[(Regex, &str); 6]>> = LazyLock::new(looks);
    let Some(looks) = LOOKS.as_ref() else { return REDACTED.to_owned() };
    looks.iter().fold(text.to_owned(), |text, (look, keep)| {
        look.replace_all(&text, |found: &Captures<'_>| {
            let mut kept = String::new();
            found.expand(keep, &mut kept);
            kept
        })
        .into_owned()
    })
}

/// How credentials look, and what is left of them.
fn looks() -> Option<[(Regex, &'static str); 6]> {
    let look = |look: &str| Regex::new(look).ok();
    Some([
        (look(r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)")?, REDACTED),
        (look(r"\beyJ[\w-]{4,}\.[\w-]+\.[\w-]*")?, REDACTED),
        (look(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{4,}")?, "$1 REDACTED"),
        // User and password before the host, and everything behind a question mark.
        (look(r#"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/@"']+@"#)?, "${1}REDACTED@"),
        (look(r#"(?i)\b([a-z][a-z0-9+.-]*://[^\s?"']+\?)[^\s"']+"#)?, "${1}REDACTED"),
        (
            look(
                r#"(?i)((?:passw(?:or)?d|passphrase|pwd|token|secret|api[-_.]?key|access[-_.]?key|credential|authorization)s?["']?[ \t]*[:=][ \t]*["']?)[^\s"',;}]+"#,
            )?,
            "${1}REDACTED",
        ),
    ])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CANARY: &str = "c4n4ry";

    #[test]
    fn nothing_that_looks_like_a_credential_is_left_in_text() {
        for secret in [
            "Authorization: Bearer c4n4ry.and-more",
            "https://user:c4n4ry@example.com/path",
            "calling https://example.com/hook?key=c4n4ry failed",
            "--token=c4n4ry --verbose",
            "password: \"c4n4ry\"",
            "{\"apiKey\":\"c4n4ry\"}",
            "-----BEGIN EC PRIVATE KEY-----\nc4n4ry\n-----END EC PRIVATE KEY-----",
            "a key that is cut off -----BEGIN PRIVATE KEY-----\nc4n4ry",
            "eyJhbGciOi.eyJc4n4ry.c4n4ry",
        ] {
            let left = text(secret);
            assert!(!left.contains(CANARY) && left.contains(REDACTED), "{secret} became {left}");
        }
        for fine in [
            "the Secret ensemble-certificates holds none",
            "secretName: team-hooks",
            "see https://example.com/docs",
        ] {
            assert_eq!(text(fine), fine);
        }
    }

    #[test]
    fn fields_go_by_what_they_are_called() {
        let pod = json!({
            "metadata": {
                "name": "web",
                "managedFields": [{}],
                "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "c4n4ry", "example.com/api-token": "c4n4ry" },
            },
            "spec": { "containers": [{
                "args": ["--token", "c4n4ry", "--port", "80"],
                "env": [
                    { "name": "DB_PASSWORD", "value": "c4n4ry" },
                    { "name": "FROM", "valueFrom": { "secretKeyRef": { "name": "db", "key": "password" } } },
                    { "name": "PORT", "value": "80" },
                ],
            }] },
        });
        let left = object(pod);
        assert!(!left.to_string().contains(CANARY), "{left}");
        assert_eq!(left["metadata"].get("managedFields"), None);
        let container = &left["spec"]["containers"][0];
        assert_eq!(container["args"], json!(["--token", REDACTED, "--port", "80"]));
        assert_eq!(
            container["env"][1]["valueFrom"]["secretKeyRef"],
            json!({ "name": "db", "key": "password" })
        );
        assert_eq!(container["env"][2]["value"], "80");
    }

    #[test]
    fn of_a_hook_the_host_is_left() {
        let left = object(json!({ "metadata": {}, "spec": { "hooks": [{
            "name": "chat", "url": "https://user:c4n4ry@hooks.example.com:8443/services/c4n4ry?x=c4n4ry",
            "bodyTemplate": "c4n4ry", "headersSecretRef": { "name": "team-hooks" },
        }, { "name": "bad", "url": "c4n4ry" }] } }));
        assert!(!left.to_string().contains(CANARY), "{left}");
        assert_eq!(left["spec"]["hooks"][0]["url"], "https://hooks.example.com:8443/REDACTED");
        assert_eq!(left["spec"]["hooks"][0]["headersSecretRef"]["name"], "team-hooks");
    }
}
