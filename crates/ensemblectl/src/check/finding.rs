//! Findings of the checks and their output. Pure.

use std::fmt::Write as _;

use serde::Serialize;

use crate::output::{BOLD, DIM, ERROR, ExitStatus, SUCCESS, WARNING, paint};

/// State of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// No problem found.
    Ok,
    /// It works, but needs attention.
    Warning,
    /// It does not work.
    Error,
    /// The check could not run.
    Unknown,
}

/// Result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// Part of the installation that was checked.
    pub(crate) what: String,
    /// State of this part.
    pub(crate) state: State,
    /// Description of the state.
    pub(crate) message: String,
    /// Remedy.
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

    /// Returns the finding of a check that could not run.
    pub(crate) fn unknown(what: &str, error: &anyhow::Error) -> Self {
        let message = operator_core::error::chain(error.as_ref());
        Self::new(what, State::Unknown, message, crate::errors::remedy(error))
    }

    fn new(what: &str, state: State, message: String, advice: Option<String>) -> Self {
        Self { what: what.to_owned(), state, message, advice }
    }
}

/// All findings with their summary.
#[derive(Debug, Serialize)]
pub(crate) struct Findings {
    /// One finding for each check without problems, and one for each problem.
    pub(crate) checks: Vec<Finding>,
    /// Number of findings in each state.
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

    /// Returns the exit status. Errors take precedence over unknown states. Warnings are no failure.
    pub(crate) fn exit_status(&self) -> ExitStatus {
        match self.summary {
            Summary { errors: 1.., .. } => ExitStatus::Failure,
            Summary { unknown: 1.., .. } => ExitStatus::Unknown,
            _ => ExitStatus::Success,
        }
    }

    /// Formats one line for each finding, with the remedy below it, and the summary.
    pub(crate) fn text(&self) -> String {
        let longest =
            self.checks.iter().map(|finding| finding.what.chars().count()).max().unwrap_or_default();
        let mut text = String::new();
        for Finding { what, state, message, advice } in &self.checks {
            let pad = " ".repeat(longest - what.chars().count());
            let _ = writeln!(text, "{} {}{pad}  {}", symbol(*state), paint(BOLD, what), one_line(message));
            if let Some(advice) = advice {
                let _ = writeln!(text, "  {} {}", paint(DIM, "→"), one_line(advice));
            }
        }
        text.push_str(&self.summary_line());
        text
    }

    fn summary_line(&self) -> String {
        let Summary { ok, warnings, errors, unknown } = self.summary;
        let counts = [(errors, "failed"), (unknown, "unknown"), (warnings, "with warnings"), (ok, "passed")];
        let counts: Vec<_> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, state)| format!("{count} {state}"))
            .collect();
        format!("\n{}\n", counts.join(", "))
    }
}

fn symbol(state: State) -> String {
    match state {
        State::Ok => paint(SUCCESS, "✓"),
        State::Warning => paint(WARNING, "!"),
        State::Error => paint(ERROR, "✗"),
        State::Unknown => paint(WARNING, "?"),
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
            Finding::ok("API server", "v1.36.3"),
            Finding::warning("certificate", "the Secret cannot be read", "ask for `get` on the Secret"),
            Finding::error(
                "role ensemble-podset",
                "cannot create pods\ncannot delete pods",
                "apply deploy/rbac/podset.yaml",
            ),
            Finding::unknown("leader election", &anyhow::anyhow!("cannot read the Leases")),
        ])
    }

    #[test]
    fn formats_findings_with_their_remedy() {
        insta::assert_snapshot!(plain(&findings().text()));
    }

    #[test]
    fn formats_findings_as_json() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&findings()).unwrap());
    }

    #[test]
    fn exit_status_prefers_errors_over_unknown_states() {
        let exit_status = |states: &[State]| {
            let finding = |state: &State| Finding::new("x", *state, String::new(), None);
            Findings::of(states.iter().map(finding).collect()).exit_status()
        };
        assert_eq!(exit_status(&[State::Ok, State::Warning]), ExitStatus::Success);
        assert_eq!(exit_status(&[State::Ok, State::Unknown]), ExitStatus::Unknown);
        assert_eq!(exit_status(&[State::Unknown, State::Error]), ExitStatus::Failure);
    }
}
