//! Runs a server process.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Signal, kill_process_group};

use crate::lifeline::Lifeline;
use crate::state::to_pid;

/// Number of log lines that an error contains.
const TAIL_LINES: usize = 15;
const POLL: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    pub(crate) fn start(
        name: &str,
        program: &Path,
        args: &[String],
        env: &[(String, String)],
        log: PathBuf,
        lifeline: &Lifeline,
    ) -> Result<Self> {
        let file = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("open the log of {name}, {}", log.display()))?;
        let child = lifeline.spawn(program, args, env, &file)?;
        Ok(Self { name: name.to_owned(), child, log })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Checks that the process runs.
    ///
    /// # Errors
    /// Returns an error with the end of the log if the process has exited.
    pub(crate) fn ensure_running(&mut self) -> Result<()> {
        let Some(status) =
            self.child.try_wait().with_context(|| format!("check the process {}", self.name))?
        else {
            return Ok(());
        };
        bail!(
            "{} exited ({}); end of {}:\n{}",
            self.name,
            describe(status),
            self.log.display(),
            tail(&self.log)
        )
    }

    /// Sends SIGTERM, waits for `patience`, and then sends SIGKILL to the process group.
    pub(crate) fn stop(mut self, patience: Duration, lifeline: &Lifeline) -> Result<()> {
        let pid = self.pid();
        self.signal(Signal::TERM);
        let deadline = Instant::now() + patience;
        while self.child.try_wait().with_context(|| format!("wait for {}", self.name))?.is_none() {
            if Instant::now() >= deadline {
                self.signal(Signal::KILL);
                self.child.wait().with_context(|| format!("wait for {}", self.name))?;
                break;
            }
            std::thread::sleep(POLL);
        }
        lifeline.forget(pid)
    }

    /// Sends SIGKILL to the process group.
    pub(crate) fn kill(mut self, lifeline: &Lifeline) -> Result<()> {
        self.signal(Signal::KILL);
        self.reap();
        lifeline.forget(self.pid())
    }

    /// Waits for a process that the lifeline has killed, so that no zombie remains.
    pub(crate) fn reap(&mut self) {
        // Fails only if the process has been waited for already.
        let _ = self.child.wait();
    }

    /// Sends a signal to the process group. Ignores processes that have exited.
    fn signal(&self, signal: Signal) {
        if let Some(group) = to_pid(self.pid()) {
            let _ = kill_process_group(group, signal);
        }
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(127), _) => "cannot run its program".to_owned(),
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// Returns the last lines of a log. Returns an empty string if the log cannot be read.
pub(crate) fn tail(path: &Path) -> String {
    let text = String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    let lines: Vec<_> = text.lines().collect();
    lines.get(lines.len().saturating_sub(TAIL_LINES)..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_error_contains_end_of_log() {
        let dir = tempfile::tempdir().unwrap();
        let lock = File::create(dir.path().join("lock")).unwrap();
        let lifeline = Lifeline::new(&dir.path().join("none"), &lock).unwrap();
        let args = ["-c".to_owned(), "echo starting; echo 'bind: address in use' >&2; exit 3".to_owned()];
        let log = dir.path().join("etcd.log");
        let mut process = Process::start("etcd", Path::new("sh"), &args, &[], log, &lifeline).unwrap();
        process.reap();
        let error = process.ensure_running().unwrap_err().to_string();
        assert!(
            error.contains("etcd exited (exit code 3)") && error.contains("bind: address in use"),
            "{error}"
        );
    }

    #[test]
    fn kills_process_that_ignores_sigterm() {
        let dir = tempfile::tempdir().unwrap();
        let lock = File::create(dir.path().join("lock")).unwrap();
        let lifeline = Lifeline::new(&dir.path().join("none"), &lock).unwrap();
        let args = ["-c".to_owned(), "trap '' TERM; while :; do sleep 1; done".to_owned()];
        let log = dir.path().join("etcd.log");
        let process = Process::start("etcd", Path::new("sh"), &args, &[], log, &lifeline).unwrap();
        let pid = process.pid();
        process.stop(Duration::from_millis(50), &lifeline).unwrap();
        assert!(!crate::state::is_alive(pid));
    }

    #[test]
    fn tail_is_limited() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        fs::write(&path, (0..100).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n")).unwrap();
        let tail = tail(&path);
        assert!(tail.starts_with("line 85") && tail.ends_with("line 99"), "{tail}");
    }
}
