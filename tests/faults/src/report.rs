//! What came of all runs, for people and for programs. Pure.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::{class::Class, run::Verdict, workload::CONTROLLERS};

/// The command that repeats a run.
pub fn repeat(verdict: &Verdict) -> String {
    format!("cargo xtask faults --only {}", verdict.id)
}

/// One line about a run that is not good.
pub fn complaint(verdict: &Verdict) -> String {
    let missed = verdict.missed.iter().map(|missed| format!("does not converge: {missed}"));
    let broken = verdict.violations.iter().map(|broken| format!("violation: {broken}"));
    let what: Vec<_> = missed.chain(broken).collect();
    format!("FAILED {} ({})\n  {}\n  {}", verdict.id, verdict.fault, what.join("\n  "), repeat(verdict))
}

/// The sum of it all.
pub fn summary(verdicts: &[Verdict]) -> String {
    let converged = verdicts.iter().filter(|verdict| verdict.missed.is_none()).count();
    let violations: usize = verdicts.iter().map(|verdict| verdict.violations.len()).sum();
    let unstruck = verdicts.iter().filter(|verdict| !verdict.struck).count();
    let mut text = format!("{converged} of {} converge, {violations} safety violations", verdicts.len());
    if unstruck > 0 {
        let _ = write!(text, " ({unstruck} whose fault found nothing to strike)");
    }
    text
}

/// A table by class and controller, as Markdown: how many of how many runs are good.
pub fn table(verdicts: &[Verdict]) -> String {
    let mut controllers: Vec<_> = CONTROLLERS.to_vec();
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
            class.words(),
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

/// What came of the runs of such a document, for those who tried them in parts.
///
/// # Errors
/// When it is no such document.
pub fn read(document: &str) -> Result<Vec<Verdict>> {
    let mut document: Value = serde_json::from_str(document).context("read a result as JSON")?;
    let runs = document.get_mut("runs").context("a result has runs")?.take();
    serde_json::from_value(runs).context("read the runs of a result")
}

/// All of it, for programs.
pub fn document(verdicts: &[Verdict]) -> Value {
    json!({ "summary": summary(verdicts), "runs": verdicts })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(id: &str, missed: Option<&str>, violations: &[&str]) -> Verdict {
        Verdict {
            id: id.parse().unwrap(),
            fault: "create pods".to_owned(),
            struck: true,
            missed: missed.map(str::to_owned),
            violations: violations.iter().map(|text| (*text).to_owned()).collect(),
            milliseconds: 1_250,
            story: Vec::new(),
        }
    }

    #[test]
    fn the_table_counts_what_is_good_and_the_summary_says_what_is_not() {
        let verdicts = [
            verdict("podset/create/F1/w1", None, &[]),
            verdict("podset/create/F1/w2", Some("a pod is missing"), &[]),
            verdict("tenant/create/F4/w1", None, &["two owners"]),
        ];
        assert_eq!(summary(&verdicts), "2 of 3 converge, 1 safety violations");
        let table = table(&verdicts);
        assert!(table.contains("| 1 of 2 | - | 1 of 2 | 1.2 s |"), "{table}");
        assert!(table.contains("| - | 0 of 1 | 0 of 1 | 1.2 s |"), "{table}");
        let told = complaint(&verdicts[1]);
        assert!(told.ends_with("cargo xtask faults --only podset/create/F1/w2"), "{told}");
        let parts = document(&verdicts).to_string();
        assert_eq!(summary(&read(&parts).unwrap()), summary(&verdicts));
        assert!(read("{}").is_err());
    }
}
