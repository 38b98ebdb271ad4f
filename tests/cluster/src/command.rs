//! Runs programs.

use std::io::Write as _;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// How long a program may run. Longer than all waits of kubectl in tests.
const LIMIT: Duration = Duration::from_mins(10);

/// Runs a program with `input` as its standard input, and returns its standard output.
///
/// # Errors
/// Returns an error with the exit status and the standard error if the program fails. A program that
/// does not end is killed.
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
    let output = output_within(LIMIT, child)?;
    if !output.status.success() {
        bail!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).context("the output is not UTF-8")
}

/// Waits until a program exits, and kills it after the limit.
fn output_within(limit: Duration, child: Child) -> Result<Output> {
    let pid = Pid::from_child(&child);
    let (sender, output) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    if let Ok(output) = output.recv_timeout(limit) {
        return output.context("wait for the program");
    }
    kill_process(pid, Signal::KILL).context("kill a program that does not end")?;
    bail!("it did not end within {limit:?}, and was killed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_errors_are_returned() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            run(command, "input")
        };
        assert_eq!(shell("cat").unwrap(), "input");
        let error = shell("echo wrong >&2; exit 3").unwrap_err().to_string();
        assert!(error.contains('3') && error.ends_with("wrong"), "{error}");
    }

    #[test]
    fn program_that_does_not_end_is_killed() {
        let child = Command::new("sleep").arg("600").stdout(Stdio::piped()).spawn().unwrap();
        let error = output_within(Duration::from_millis(10), child).unwrap_err().to_string();
        assert!(error.contains("did not end within 10ms"), "{error}");
    }
}
