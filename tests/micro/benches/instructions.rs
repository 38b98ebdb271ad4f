//! Counts the instructions of each hot path with valgrind. The count hardly depends on the load of
//! the machine; only hash seeds differ between runs. The setup is excluded: each path is counted
//! with two numbers of rounds, and the counts are subtracted.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use micro::HOT_PATHS;
use tokio::runtime::Builder;

/// Number of rounds in the two counts.
const FEW: u64 = 100;
const MANY: u64 = 1_100;

fn main() -> Result<()> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    if let [path, rounds] = args.as_slice()
        && let Ok(rounds) = rounds.parse()
    {
        return run(path, rounds);
    }
    println!("{:<45} instructions", "");
    for path in HOT_PATHS {
        let each =
            (count_instructions(path.name, MANY)? - count_instructions(path.name, FEW)?) / (MANY - FEW);
        println!("{:<45} {each:>12}", path.name);
    }
    Ok(())
}

/// Runs a hot path in this process.
fn run(name: &str, rounds: u64) -> Result<()> {
    let path = HOT_PATHS.into_iter().find(|path| path.name == name).context("no hot path has this name")?;
    let runtime = Box::leak(Box::new(Builder::new_current_thread().enable_all().build()?));
    let mut once = (path.prepare)(runtime);
    (0..rounds).for_each(|_| once());
    Ok(())
}

/// Counts the instructions of a process that runs a hot path.
fn count_instructions(path: &str, rounds: u64) -> Result<u64> {
    let program = std::env::current_exe().context("locate this program")?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([path, &rounds.to_string()])
        .output()
        .context("run valgrind; install it with apt-get install valgrind")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cannot run {path} under valgrind: {stderr}");
    let count =
        stderr.lines().find_map(|line| line.split_once("Collected : ")).map(|(_, count)| count.trim());
    count
        .and_then(|count| count.parse().ok())
        .with_context(|| format!("valgrind reported no count: {stderr}"))
}
