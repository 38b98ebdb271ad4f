//! Formats the results as text, Markdown, and JSON. Pure functions.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::{class::Class, run::Verdict, workload::CONTROLLERS};

/// Returns the command that repeats a run.
pub fn repeat(verdict: &Verdict) -> String {
    format!("cargo xtask faults --only {}", verdict.id)
}

/// Describes a failed run in one line.
pub fn failure_line(verdict: &Verdict) -> String {
    let difference = verdict.difference.iter().map(|difference| format!("does not converge: {difference}"));
    let broken = verdict.violations.iter().map(|broken| format!("violation: {broken}"));
    let what: Vec<_> = difference.chain(broken).collect();
    format!("FAILED {} ({})\n  {}\n  {}", verdict.id, verdict.fault, what.join("\n  "), repeat(verdict))
}

/// Summarizes all runs.
pub fn summary(verdicts: &[Verdict]) -> String {
    let converged = verdicts.iter().filter(|verdict| verdict.difference.is_none()).count();
    let violations: usize = verdicts.iter().map(|verdict| verdict.violations.len()).sum();
    let without_fault = verdicts.iter().filter(|verdict| !verdict.injected).count();
    let mut text = format!("{converged} of {} converge, {violations} invariant violations", verdicts.len());
    if without_fault > 0 {
        let _ = write!(text, " ({without_fault} without an injected fault)");
    }
    text
}

/// Returns a Markdown table with the passed and total runs by class and controller.
pub fn table(verdicts: &[Verdict]) -> String {
    let mut controllers = CONTROLLERS.clone();
    controllers.retain(|controller| verdicts.iter().any(|verdict| verdict.id.controller == *controller));
    let mut table = format!("| class | fault | {} | all | slowest |\n", controllers.join(" | "));
    let _ = writeln!(table, "|---|---|{}---|---|", "---|".repeat(controllers.len()));
    for class in Class::all() {
        let of_class: Vec<_> = verdicts.iter().filter(|verdict| verdict.id.class == class).collect();
        if of_class.is_empty() {
            continue;
        }
        let cells = controllers.iter().map(|controller| {
            share(of_class.iter().filter(|verdict| verdict.id.controller == *controller).copied())
        });
        let cells: Vec<_> = cells.collect();
        let slowest = of_class.iter().map(|verdict| verdict.milliseconds).max().unwrap_or_default();
        let _ = writeln!(
            table,
            "| {class} | {} | {} | {} | {}.{} s |",
            class.description(),
            cells.join(" | "),
            share(of_class.iter().copied()),
            slowest / 1000,
            slowest % 1000 / 100
        );
    }
    table
}

fn share<'v>(verdicts: impl Iterator<Item = &'v Verdict>) -> String {
    let (mut good, mut all) = (0, 0);
    for verdict in verdicts {
        all += 1;
        good += usize::from(verdict.is_good());
    }
    if all == 0 { "-".to_owned() } else { format!("{good} of {all}") }
}

/// Reads the verdicts of a JSON document, to join the results of several shards.
///
/// # Errors
/// Returns an error if the document is not valid.
pub fn read(document: &str) -> Result<Vec<Verdict>> {
    let mut document: Value = serde_json::from_str(document).context("read a result as JSON")?;
    let runs = document.get_mut("runs").context("a result has runs")?.take();
    serde_json::from_value(runs).context("read the runs of a result")
}

/// Returns all verdicts as JSON.
pub fn document(verdicts: &[Verdict]) -> Value {
    json!({ "summary": summary(verdicts), "runs": verdicts })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(id: &str, difference: Option<&str>, violations: &[&str]) -> Verdict {
        Verdict {
            id: id.parse().unwrap(),
            fault: "create pods".to_owned(),
            injected: true,
            difference: difference.map(str::to_owned),
            violations: violations.iter().map(|text| (*text).to_owned()).collect(),
            milliseconds: 1_250,
            history: Vec::new(),
        }
    }

    #[test]
    fn table_counts_passed_runs_and_summary_lists_failures() {
        let verdicts = [
            verdict("podset/create/F1/w1", None, &[]),
            verdict("podset/create/F1/w2", Some("a pod is missing"), &[]),
            verdict("tenant/create/F4/w1", None, &["two owners"]),
        ];
        assert_eq!(summary(&verdicts), "2 of 3 converge, 1 invariant violations");
        let table = table(&verdicts);
        assert!(table.contains("| 1 of 2 | - | 1 of 2 | 1.2 s |"), "{table}");
        assert!(table.contains("| - | 0 of 1 | 0 of 1 | 1.2 s |"), "{table}");
        let line = failure_line(&verdicts[1]);
        assert!(line.ends_with("cargo xtask faults --only podset/create/F1/w2"), "{line}");
        let parts = document(&verdicts).to_string();
        assert_eq!(summary(&read(&parts).unwrap()), summary(&verdicts));
        assert!(read("{}").is_err());
    }
}
