//! What the manager says while it goes on.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::token::Token;

/// How often a reconcile of one object may fail, or the same error be told, within a minute.
pub const MOST_A_MINUTE: usize = 10;
/// How many lines of level error there may be within a minute.
pub const MOST_ERRORS_A_MINUTE: usize = 5;

/// What is wrong with lines of a log, as JSON, that were written within this many minutes, one that has begun counted as
/// one. Lines that are about other runs are passed over; a panic is everybody's.
pub fn complaints(token: Token, lines: &str, minutes: usize) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut failures = BTreeMap::<String, usize>::new();
    let mut errors = 0;
    for line in lines.lines() {
        if line.contains("panicked") {
            complaints.push(format!("a panic: {line}"));
        }
        let Ok(said) = serde_json::from_str::<Value>(line) else { continue };
        if !line.contains(&token.to_string()) {
            continue;
        }
        let word = |key: &str| said.get(key).and_then(Value::as_str).unwrap_or_default();
        match word("level") {
            "ERROR" => errors += 1,
            "WARN" => *failures.entry(format!("{} {}", word("message"), word("object"))).or_default() += 1,
            _ => {}
        }
    }
    if errors > MOST_ERRORS_A_MINUTE * minutes {
        complaints.push(format!("{errors} lines of level error within {minutes} min"));
    }
    for (what, count) in failures.into_iter().filter(|(_, count)| *count > MOST_A_MINUTE * minutes) {
        complaints.push(format!("{what} was told {count} times within {minutes} min"));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_of_failures_and_a_panic_are_heard_and_a_few_failures_are_not() {
        let token = Token::nth(1);
        let line = r#"{"level":"WARN","message":"reconcile failed","object":"n/r000001"}"#;
        let few = format!("{line}\n").repeat(MOST_A_MINUTE);
        assert_eq!(complaints(token, &few, 1), [] as [String; 0]);
        assert_eq!(complaints(token, &format!("{few}{line}"), 1).len(), 1);
        assert_eq!(complaints(Token::nth(2), &format!("{few}{line}"), 1).len(), 0);
        assert_eq!(complaints(token, "thread 'main' panicked at x.rs", 1).len(), 1);
    }
}
