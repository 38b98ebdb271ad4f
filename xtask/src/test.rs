//! `test`: everything, with one control plane for all.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use cluster::{CLUSTER_VARIABLE, Cluster, Options, program::cargo_in};

use crate::workspace;

/// Runs all tests and prints the totals.
#[derive(Args)]
pub(crate) struct Test {
    /// What to hand on to `cargo test`, after `--`; `--workspace` if nothing is given
    #[arg(last = true)]
    args: Vec<String>,
}

/// How many tests there were, over all test programs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Totals {
    passed: u32,
    failed: u32,
    ignored: u32,
}

impl Test {
    pub(crate) async fn run(&self) -> Result<()> {
        let cluster = Cluster::start(Options::default()).await?;
        let (totals, succeeded) = self.cargo_test(&cluster.record().name)?;
        cluster.stop()?;
        println!("\n{} passed, {} failed, {} skipped", totals.passed, totals.failed, totals.ignored);
        if !succeeded || totals.failed > 0 {
            bail!("tests failed");
        }
        if totals.passed == 0 {
            bail!("no test ran");
        }
        Ok(())
    }

    fn cargo_test(&self, cluster: &str) -> Result<(Totals, bool)> {
        let all = ["--workspace".to_owned(), "--no-fail-fast".to_owned()];
        let args = if self.args.is_empty() { all.as_slice() } else { self.args.as_slice() };
        let mut tests = cargo_in(&workspace())
            .arg("test")
            .args(args)
            .env(CLUSTER_VARIABLE, cluster)
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run cargo")?;
        let mut totals = Totals::default();
        for line in tests.stdout.take().into_iter().flat_map(|output| BufReader::new(output).lines()) {
            let line = line.context("cannot read what the tests print")?;
            println!("{line}");
            totals.count(&line);
        }
        Ok((totals, tests.wait().context("cannot wait for cargo")?.success()))
    }
}

impl Totals {
    /// Takes in the closing line of a test program, `test result: ok. 3 passed; 0 failed; 1 ignored; ...`.
    fn count(&mut self, line: &str) {
        let Some(numbers) = line.strip_prefix("test result: ").and_then(|line| line.split_once(". ")) else {
            return;
        };
        for part in numbers.1.split("; ") {
            let Some((number, what)) = part.split_once(' ') else { continue };
            let number: u32 = number.parse().unwrap_or_default();
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_lines_of_all_test_programs_are_added_up() {
        let mut totals = Totals::default();
        for line in [
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
        ] {
            totals.count(line);
        }
        assert_eq!(totals, Totals { passed: 4, failed: 2, ignored: 1 });
    }
}
