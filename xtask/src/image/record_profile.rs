//! `cargo xtask profile`: records what the manager executes, so that the compiler can optimize the image for it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use cluster::program::workspace;

use super::{build, packages::packages, platform::Platform, toolchain::first_line};

/// Factor of all counts. The compiler divides the count of a function among the places where it is inlined, and takes
/// what is rounded to zero for code that was never executed.
const WEIGHT: u32 = 10_000;

/// Runs benchmarks with a manager that records its execution.
#[derive(Args)]
pub(crate) struct RecordProfile {
    /// File for the profile
    #[arg(long, default_value = "target/profile/manager.profdata")]
    output: PathBuf,
}

impl RecordProfile {
    /// Builds a manager that counts how often each branch is taken, runs it, and writes the sums of all runs.
    pub(crate) fn run(&self) -> Result<()> {
        let platform = Platform::host()?;
        platform.check()?;
        let merge = merge_program()?;
        let [manager, ..] = packages(platform)?;
        // A folder of its own, because cargo would replace the crates of other builds.
        let folder = manager.target_folder.join("profile");
        let records = folder.join("records");
        clear(&records)?;
        println!("building ...");
        let program = build::recording_manager(platform, &folder)?;
        train(&program, &records)?;
        let output = workspace().join(&self.output);
        merge_records(&merge, &records, &output)?;
        println!("wrote {}", output.display());
        Ok(())
    }
}

/// Returns the path of LLVM's program that merges records. Its version has to be that of the compiler.
///
/// # Errors
/// Returns an error that says how to install it.
fn merge_program() -> Result<PathBuf> {
    let libraries = PathBuf::from(first_line(Command::new("rustc").arg("--print=target-libdir"))?);
    let program = libraries.with_file_name("bin").join("llvm-profdata");
    ensure!(
        program.is_file(),
        "{} is not installed; run `rustup component add llvm-tools`",
        program.display()
    );
    Ok(program)
}

/// Runs benchmarks, whose managers write their records to a folder. They execute what managers execute most: watches,
/// reconciles of all kinds, admission reviews, and metric scrapes.
fn train(program: &Path, records: &Path) -> Result<()> {
    let mut bench = Command::new(std::env::current_exe().context("cannot find the path of xtask")?);
    bench.args(["bench", "idle", "scale", "reviews", "tenants", "scrape", "--program"]).arg(program);
    bench.args(["--idle-seconds=60", "--scale-objects=200", "--changes=20", "--reviews=2000"]);
    bench.args(["--tenants=50", "--namespaces=20", "--more-tenants=50", "--scrapes=50"]);
    // One file for each process: the order of first calls cannot be merged into a file of another one.
    let status = bench.env("LLVM_PROFILE_FILE", records.join("%p.profraw")).status();
    let status = status.context("cannot run the benchmarks")?;
    ensure!(status.success(), "cannot record a profile: the benchmarks failed; see their errors above");
    Ok(())
}

/// Creates an empty folder, without the records of earlier runs.
fn clear(records: &Path) -> Result<()> {
    if records.exists() {
        fs::remove_dir_all(records).with_context(|| format!("cannot delete {}", records.display()))?;
    }
    fs::create_dir_all(records).with_context(|| format!("cannot create {}", records.display()))
}

/// Writes the sums of all records to a file. Functions that were never executed stay in it, because the
/// compiler only then knows that they are not worth memory.
fn merge_records(program: &Path, records: &Path, output: &Path) -> Result<()> {
    let folder = output.parent().context("the output has no folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut merge = Command::new(program);
    merge.args(["merge", "--temporal-profile-max-trace-length=100000"]);
    merge.arg(format!("--weighted-input={WEIGHT},{}", records.display()));
    merge.arg("--output").arg(output);
    first_line(&mut merge).map(drop).with_context(|| format!("cannot write {}", output.display()))
}
