//! Finds the calls of log and span macros in the source code.

use std::{fs, path::Path};

/// Macros that log or open a span. The keys of a span occur in the log lines within it.
const MACROS: [&str; 7] =
    ["info!(", "warn!(", "error!(", "debug!(", "trace!(", "info_span!(", "debug_span!("];

/// A call of a log or span macro.
pub(super) struct Call {
    /// File and first characters of the call.
    pub(super) place: String,
    pub(super) keys: Vec<String>,
    pub(super) message: String,
}

/// Returns all calls in the source files of a folder, except in tests.
pub(super) fn all(folder: &Path) -> Vec<Call> {
    let mut calls = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() && name != "tests" {
            calls.extend(all(&path));
        } else if path.extension().is_some_and(|kind| kind == "rs") && name != "tests.rs" {
            let text = fs::read_to_string(&path).unwrap();
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            calls.extend(calls_in(text).map(|(keys, message)| Call {
                place: format!("{}: {message}", path.display()),
                keys,
                message,
            }));
        }
    }
    calls
}

fn calls_in(text: &str) -> impl Iterator<Item = (Vec<String>, String)> {
    MACROS.iter().flat_map(move |name| {
        let found = text.match_indices(name).filter(|(at, _)| {
            let before = text[..*at].chars().next_back();
            !before.is_some_and(|before| before.is_alphanumeric() || before == '_')
        });
        found.filter_map(|(at, _)| keys_and_message(&arguments(&text[at + name.len()..])))
    })
}

/// Returns the arguments of a call from the text after its opening parenthesis.
fn arguments(text: &str) -> Vec<String> {
    let (mut depth, mut in_string, mut escaped) = (0, false, false);
    let mut arguments = vec![String::new()];
    for letter in text.chars() {
        let is_end = !in_string && depth == 0;
        match letter {
            ')' if is_end => break,
            ',' if is_end => {
                arguments.push(String::new());
                continue;
            }
            '"' if !escaped => in_string = !in_string,
            '(' | '[' | '{' if !in_string => depth += 1,
            ')' | ']' | '}' if !in_string => depth -= 1,
            _ => {}
        }
        escaped = in_string && letter == '\\' && !escaped;
        arguments.last_mut().unwrap().push(letter);
    }
    arguments
        .iter()
        .map(|argument| argument.trim().to_owned())
        .filter(|argument| !argument.is_empty())
        .collect()
}

/// Returns keys and message. All arguments except the message are keys; the name of a span is its
/// message. Returns `None` if there is no message, as in other macros of the same name.
fn keys_and_message(arguments: &[String]) -> Option<(Vec<String>, String)> {
    let at = arguments.iter().position(|argument| argument.starts_with('"'))?;
    let message = arguments[at].trim_matches('"').to_owned();
    let is_format = message.contains('{');
    let keys = arguments.iter().enumerate().filter(|(place, _)| *place < at || (*place > at && !is_format));
    Some((keys.map(|(_, argument)| key(argument)).collect(), message))
}

fn key(argument: &str) -> String {
    let key = argument.split('=').next().unwrap_or_default();
    key.trim().trim_start_matches(['%', '?']).to_owned()
}

#[test]
fn finds_keys_and_messages() {
    let text = r#"
        info!("only a message");
        warn!(controller = T::NAME, ?wait, %error, retry_in = ?f(a, "x, y)"), "it \"failed\", and");
        debug_span!("request", verb = self.verb, code = Empty);
        error!(kind, "{}", advice(kind));
        my_info!("not ours");
    "#;
    let calls: Vec<_> = calls_in(text).map(|(keys, message)| (keys.join(" "), message)).collect();
    let expected = [
        ("", "only a message"),
        ("controller wait error retry_in", r#"it \"failed\", and"#),
        ("kind", "{}"),
        ("verb code", "request"),
    ];
    assert_eq!(calls, expected.map(|(keys, message)| (keys.to_owned(), message.to_owned())));
}
