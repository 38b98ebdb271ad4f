//! `test`: runs all tests on one control plane.

mod output;

use std::{
    io::{BufRead, BufReader},
    num::NonZero,
    process::Stdio,
    thread::available_parallelism,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use cluster::{
    CLUSTER_VARIABLE, Cluster, KUBERNETES_VARIABLE, Options,
    program::{cargo_in, workspace},
    real_nodes,
};
use output::{Failure, Output};

use crate::{image, kubernetes::Kubernetes};

/// Archive with the image of the manager, for tests on real nodes.
const IMAGE_VARIABLE: &str = "ENSEMBLE_TEST_IMAGE";
/// Arguments of `cargo test` for the tests that need real nodes or root.
const REAL: &str = "--workspace --no-fail-fast --test real --test teardown --test packets";
/// More than there are tests on real nodes. All start at once, and those that disturb nodes wait for the others.
const REAL_THREADS: usize = 64;
/// Number of test programs in the list of the slowest ones.
const SLOWEST: usize = 10;
/// Number of tests that a test program runs concurrently.
const THREADS_VARIABLE: &str = "RUST_TEST_THREADS";
/// Prints the package and the file name of each test program before it runs. As an argument, unlike
/// an environment variable, it does not apply to tests that run cargo.
const RUNNER: &str = r#"target."cfg(all())".runner = ["sh", "-c", "echo \"program $CARGO_PKG_NAME ${1##*/}\"; exec \"$@\"", "run"]"#;

/// Runs all tests, and prints the totals, the slowest test programs, and why tests failed.
#[derive(Args)]
pub(crate) struct Test {
    /// Run the tests on real nodes instead, which need root and what `cargo xtask cluster prepare`
    /// installs; they include the image of the manager
    #[arg(long)]
    real: bool,
    #[command(flatten)]
    kubernetes: Kubernetes,
    /// Arguments of `cargo test`, after `--`; `--workspace` by default
    #[arg(last = true)]
    args: Vec<String>,
}

impl Test {
    pub(crate) async fn run(&self) -> Result<()> {
        let output = if self.real { self.real_nodes()? } else { self.simulated().await? };
        println!("\nslowest test programs:");
        for (program, seconds) in output.slowest(SLOWEST) {
            println!("{seconds:>8.1} s  {program}");
        }
        println!("\n{} passed, {} failed, {} skipped", output.passed, output.failed, output.ignored);
        if !output.succeeded || output.failed > 0 || output.unclosed > 0 {
            for Failure { name, message } in &output.failures {
                println!("\n{name}:\n{}", message.join("\n"));
            }
            let names: Vec<_> = output.failures.iter().map(|failure| failure.name.as_str()).collect();
            bail!("tests failed: {}", names.join(", "));
        }
        if output.passed == 0 {
            bail!("no test ran; check the arguments after `--`");
        }
        Ok(())
    }

    async fn simulated(&self) -> Result<Output> {
        let locator = Some(self.kubernetes.locator()?);
        let cluster = Cluster::start(Options { locator, ..Options::default() }).await?;
        let variables = [self.release(), (CLUSTER_VARIABLE, cluster.record().name.clone())];
        let all = ["--workspace", "--no-fail-fast"].map(str::to_owned);
        let args = if self.args.is_empty() { &all[..] } else { &self.args };
        // Most tests wait for a control plane. Three more than the number of cores keep all busy.
        let threads = available_parallelism().map_or(1, NonZero::get) + 3;
        let output = cargo_test(&variables, threads, args)?;
        cluster.stop()?;
        Ok(output)
    }

    /// Runs the tests that need real nodes, with the image of this version.
    fn real_nodes(&self) -> Result<Output> {
        real_nodes::check()?;
        let variables = [
            self.release(),
            (IMAGE_VARIABLE, image::build_for_host(image::Profile::Test)?.display().to_string()),
        ];
        let all: Vec<_> = REAL.split_whitespace().chain(self.args.iter().map(String::as_str)).collect();
        cargo_test(&variables, REAL_THREADS, &all)
    }

    /// Returns the variable that selects the release for clusters that tests start.
    fn release(&self) -> (&'static str, String) {
        (KUBERNETES_VARIABLE, self.kubernetes.release().to_string())
    }
}

/// Runs `cargo test`. Each test program runs this many tests concurrently, unless the environment says otherwise.
fn cargo_test<S: AsRef<str>>(variables: &[(&str, String)], threads: usize, args: &[S]) -> Result<Output> {
    let mut command = cargo_in(&workspace());
    command.args(["--config", RUNNER, "test"]).args(args.iter().map(S::as_ref));
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    if std::env::var_os(THREADS_VARIABLE).is_none() {
        command.env(THREADS_VARIABLE, threads.to_string());
    }
    let mut tests = command.stdout(Stdio::piped()).spawn().context("run cargo")?;
    let mut output = Output::default();
    for line in tests.stdout.take().into_iter().flat_map(|output| BufReader::new(output).lines()) {
        let line = line.context("read the output of the tests")?;
        println!("{line}");
        output.parse_line(&line);
    }
    output.succeeded = tests.wait().context("wait for cargo")?.success();
    Ok(output)
}
