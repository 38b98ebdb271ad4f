//! `test`: everything, with one control plane for all.

mod output;

use std::{
    io::{BufRead, BufReader},
    num::NonZero,
    process::Stdio,
    thread::available_parallelism,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use cluster::{CLUSTER_VARIABLE, Cluster, Options, program::cargo_in};
use output::Output;

use crate::workspace;

/// How many failed tests are tried again. More than that have a cause in common.
const TRIED_AGAIN: usize = 3;
/// How many tests a test program runs at once.
const THREADS_VARIABLE: &str = "RUST_TEST_THREADS";

/// Runs all tests and prints the totals. Up to three that fail are tried once more, by themselves, and named.
#[derive(Args)]
pub(crate) struct Test {
    /// What to hand on to `cargo test`, after `--`; `--workspace` if nothing is given. It is run as it is: nothing
    /// is tried again
    #[arg(last = true)]
    args: Vec<String>,
}

impl Test {
    pub(crate) async fn run(&self) -> Result<()> {
        let cluster = Cluster::start(Options::default()).await?;
        let name = &cluster.record().name;
        let output = if self.args.is_empty() { all(name)? } else { cargo_test(name, &self.args)? };
        cluster.stop()?;
        println!("\n{} passed, {} failed, {} skipped", output.passed, output.failed, output.ignored);
        if !output.succeeded || output.failed > 0 || output.unclosed > 0 {
            bail!("tests failed: {}", output.failures.join(", "));
        }
        if output.passed == 0 {
            bail!("no test ran");
        }
        Ok(())
    }
}

/// All tests, and those that failed once more.
fn all(cluster: &str) -> Result<Output> {
    let all = ["--workspace", "--no-fail-fast"];
    let first = cargo_test(cluster, &all)?;
    if first.failures.is_empty() || first.failures.len() > TRIED_AGAIN || first.unclosed > 0 {
        return Ok(first);
    }
    println!("\ntried again, one at a time: {}", first.failures.join(", "));
    let names = first.failures.iter().map(String::as_str);
    let again: Vec<_> = all.into_iter().chain(["--", "--exact", "--test-threads=1"]).chain(names).collect();
    let again = cargo_test(cluster, &again)?;
    for name in first.failures.iter().filter(|name| !again.failures.contains(name)) {
        println!("FLAKY: {name} failed among the others and passed by itself");
    }
    Ok(first.with_second_try(again))
}

fn cargo_test<S: AsRef<str>>(cluster: &str, args: &[S]) -> Result<Output> {
    let mut command = cargo_in(&workspace());
    command.arg("test").args(args.iter().map(S::as_ref)).env(CLUSTER_VARIABLE, cluster);
    if std::env::var_os(THREADS_VARIABLE).is_none() {
        // Most tests wait for a control plane that is as busy as they are: one more than cores keeps both at work.
        let cores = available_parallelism().map_or(1, NonZero::get);
        command.env(THREADS_VARIABLE, (cores + 1).to_string());
    }
    let mut tests = command.stdout(Stdio::piped()).spawn().context("cannot run cargo")?;
    let mut output = Output::default();
    for line in tests.stdout.take().into_iter().flat_map(|output| BufReader::new(output).lines()) {
        let line = line.context("cannot read what the tests print")?;
        println!("{line}");
        output.take(&line);
    }
    output.succeeded = tests.wait().context("cannot wait for cargo")?.success();
    Ok(output)
}
