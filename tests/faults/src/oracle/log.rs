//! Checks the manager's log.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::token::Token;

/// Maximum number of failed reconciles of one object, or of equal errors, per minute.
pub const MOST_A_MINUTE: usize = 10;
/// Maximum number of log lines with level error per minute.
pub const MOST_ERRORS_A_MINUTE: usize = 5;

/// Returns the problems in JSON log lines of this number of minutes, rounded up. Lines about other
/// runs are ignored, except panics.
pub fn problems(token: Token, lines: &str, minutes: usize) -> Vec<String> {
    let mut problems = Vec::new();
    let mut failures = BTreeMap::<String, usize>::new();
    let mut errors = 0;
    for line in lines.lines() {
        if line.contains("panicked") {
            problems.push(format!("panic: {line}"));
        }
        let Ok(entry) = serde_json::from_str::<Value>(line) else { continue };
        if !line.contains(&token.to_string()) {
            continue;
        }
        let word = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        match word("level") {
            "ERROR" => errors += 1,
            "WARN" => *failures.entry(format!("{} {}", word("message"), word("object"))).or_default() += 1,
            _ => {}
        }
    }
    if errors > MOST_ERRORS_A_MINUTE * minutes {
        problems.push(format!("{errors} log lines with level error within {minutes} min"));
    }
    for (what, count) in failures.into_iter().filter(|(_, count)| *count > MOST_A_MINUTE * minutes) {
        problems.push(format!("{what} was logged {count} times within {minutes} min"));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_failure_loops_and_panics_but_not_single_failures() {
        let token = Token::nth(1);
        let line = r#"{"level":"WARN","message":"reconcile failed","object":"n/r000001"}"#;
        let few = format!("{line}\n").repeat(MOST_A_MINUTE);
        assert_eq!(problems(token, &few, 1), [] as [String; 0]);
        assert_eq!(problems(token, &format!("{few}{line}"), 1).len(), 1);
        assert_eq!(problems(Token::nth(2), &format!("{few}{line}"), 1).len(), 0);
        assert_eq!(problems(token, "thread 'main' panicked at x.rs", 1).len(), 1);
    }
}
