//! The instructions of each hot path, counted by valgrind: nearly the same in every run, however busy the machine is;
//! only seeds of hashes differ. What a path needs to be set up is taken out by counting twice, with other numbers of
//! rounds.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use micro::HOT_PATHS;
use tokio::runtime::Builder;

/// How often a path is taken: in the count that is subtracted, and in the other.
const FEW: u64 = 100;
const MANY: u64 = 1_100;

fn main() -> Result<()> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    if let [path, rounds] = args.as_slice()
        && let Ok(rounds) = rounds.parse()
    {
        return take(path, rounds);
    }
    println!("{:<45} instructions", "");
    for path in HOT_PATHS {
        let each = (counted(path.name, MANY)? - counted(path.name, FEW)?) / (MANY - FEW);
        println!("{:<45} {each:>12}", path.name);
    }
    Ok(())
}

/// Takes a path so often, within this process.
fn take(name: &str, rounds: u64) -> Result<()> {
    let path = HOT_PATHS.into_iter().find(|path| path.name == name).context("there is no such path")?;
    let runtime = Box::leak(Box::new(Builder::new_current_thread().enable_all().build()?));
    let mut once = (path.prepare)(runtime);
    (0..rounds).for_each(|_| once());
    Ok(())
}

/// The instructions of a process that does so.
fn counted(path: &str, rounds: u64) -> Result<u64> {
    let program = std::env::current_exe().context("find this program")?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([path, &rounds.to_string()])
        .output()
        .context("run valgrind; your distribution has it: apt-get install valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{path} failed under valgrind: {said}");
    let count = said.lines().find_map(|line| line.split_once("Collected : ")).map(|(_, count)| count.trim());
    count.and_then(|count| count.parse().ok()).with_context(|| format!("valgrind gave no count: {said}"))
}
