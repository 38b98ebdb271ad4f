//! What a check has found, and how all findings read. Pure.

use std::fmt::Write as _;

use serde::Serialize;

use crate::output::{BAD, DOUBTFUL, Ending, GOOD, HEAD, QUIET, paint};

/// How a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// As it should be.
    Ok,
    /// It works, and somebody should look.
    Warning,
    /// It is wrong.
    Error,
    /// It could not be found out.
    Unknown,
}

/// What a check has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// What was looked at.
    pub(crate) what: String,
    /// How it is.
    pub(crate) state: State,
    /// The same in a sentence.
    pub(crate) message: String,
    /// What a person can do; nothing where all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) advice: Option<String>,
}

impl Finding {
    pub(crate) fn ok(what: &str, message: impl Into<String>) -> Self {
        Self::new(what, State::Ok, message.into(), None)
    }

    pub(crate) fn warning(what: &str, message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(what, State::Warning, message.into(), Some(advice.into()))
    }

    pub(crate) fn error(what: &str, message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(what, State::Error, message.into(), Some(advice.into()))
    }

    /// The API server did not say.
    pub(crate) fn unknown(what: &str, error: &anyhow::Error) -> Self {
        let message = operator_core::error::chain(error.as_ref());
        Self::new(what, State::Unknown, message, crate::explain::advice(error))
    }

    fn new(what: &str, state: State, message: String, advice: Option<String>) -> Self {
        Self { what: what.to_owned(), state, message, advice }
    }
}

/// All findings, and what they come to.
#[derive(Debug, Serialize)]
pub(crate) struct Findings {
    /// One of each check that found nothing, and one for each thing that is not as it should be.
    pub(crate) checks: Vec<Finding>,
    /// How many there are of each.
    summary: Summary,
}

#[derive(Debug, Serialize)]
struct Summary {
    ok: usize,
    warnings: usize,
    errors: usize,
    unknown: usize,
}

impl Findings {
    pub(crate) fn of(checks: Vec<Finding>) -> Self {
        let count = |state| checks.iter().filter(|finding| finding.state == state).count();
        let summary = Summary {
            ok: count(State::Ok),
            warnings: count(State::Warning),
            errors: count(State::Error),
            unknown: count(State::Unknown),
        };
        Self { checks, summary }
    }

    /// What is wrong counts for more than what is not known; a warning alone is no failure.
    pub(crate) fn ending(&self) -> Ending {
        match self.summary {
            Summary { errors: 1.., .. } => Ending::Wrong,
            Summary { unknown: 1.., .. } => Ending::Unknown,
            _ => Ending::Fine,
        }
    }

    /// A line for each, what to do beneath it, and the sum.
    pub(crate) fn text(&self) -> String {
        let longest =
            self.checks.iter().map(|finding| finding.what.chars().count()).max().unwrap_or_default();
        let mut text = String::new();
        for Finding { what, state, message, advice } in &self.checks {
            let pad = " ".repeat(longest - what.chars().count());
            let _ = writeln!(text, "{} {}{pad}  {}", sign(*state), paint(HEAD, what), one_line(message));
            if let Some(advice) = advice {
                let _ = writeln!(text, "  {} {}", paint(QUIET, "→"), one_line(advice));
            }
        }
        text.push_str(&self.sum());
        text
    }

    fn sum(&self) -> String {
        let Summary { ok, warnings, errors, unknown } = self.summary;
        let parts = [(errors, "wrong"), (unknown, "not found out"), (warnings, "to look at"), (ok, "fine")];
        let told: Vec<_> = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        format!("\n{}\n", told.join(", "))
    }
}

fn sign(state: State) -> String {
    match state {
        State::Ok => paint(GOOD, "✓"),
        State::Warning => paint(DOUBTFUL, "!"),
        State::Error => paint(BAD, "✗"),
        State::Unknown => paint(DOUBTFUL, "?"),
    }
}

fn one_line(text: &str) -> String {
    text.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::plain;

    fn findings() -> Findings {
        Findings::of(vec![
            Finding::ok("API server", "v1.36.3 answers"),
            Finding::warning("certificate", "cannot be read with your rights", "ask for `get` on the Secret"),
            Finding::error(
                "rights of podset",
                "it may not create pods\nnor delete them",
                "apply deploy/rbac/podset.yaml",
            ),
            Finding::unknown("leadership", &anyhow::anyhow!("the Leases cannot be read")),
        ])
    }

    #[test]
    fn each_finding_is_a_line_with_what_to_do_beneath() {
        insta::assert_snapshot!(plain(&findings().text()));
    }

    #[test]
    fn programs_get_the_same() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&findings()).unwrap());
    }

    #[test]
    fn the_ending_tells_wrong_from_unknown_from_fine() {
        let ending = |states: &[State]| {
            let finding = |state: &State| Finding::new("x", *state, String::new(), None);
            Findings::of(states.iter().map(finding).collect()).ending()
        };
        assert_eq!(ending(&[State::Ok, State::Warning]), Ending::Fine);
        assert_eq!(ending(&[State::Ok, State::Unknown]), Ending::Unknown);
        assert_eq!(ending(&[State::Unknown, State::Error]), Ending::Wrong);
    }
}
