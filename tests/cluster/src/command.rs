//! Runs programs.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// Runs a program with `input` as its standard input, and returns its standard output.
///
/// # Errors
/// Returns an error with the exit status and the standard error if the program fails.
pub(crate) fn run(mut command: Command, input: &str) -> Result<String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("start {}", command.get_program().display()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If the program exits before it reads its input, its own error is more useful than a broken
        // pipe.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().context("wait for the program")?;
    if !output.status.success() {
        bail!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).context("the output is not UTF-8")
}
