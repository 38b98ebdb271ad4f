//! One running server: its process and its log.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Signal, kill_process_group};

use crate::lifeline::Lifeline;
use crate::state::to_pid;

/// How many of the last lines of a log an error carries.
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

    /// # Errors
    /// When the process has ended; the error carries the end of its log.
    pub(crate) fn ensure_running(&mut self) -> Result<()> {
        let Some(status) = self.child.try_wait().with_context(|| format!("look after {}", self.name))? else {
            return Ok(());
        };
        bail!(
            "{} ended ({}). The end of {}:\n{}",
            self.name,
            describe(status),
            self.log.display(),
            tail(&self.log)
        )
    }

    /// Asks the process to end, waits, and kills its group when `patience` is over.
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

    /// Ends the process without warning, as a crash would.
    pub(crate) fn kill(mut self, lifeline: &Lifeline) -> Result<()> {
        self.signal(Signal::KILL);
        self.reap();
        lifeline.forget(self.pid())
    }

    /// Takes the end of a process that the lifeline has killed, so that no zombie stays.
    pub(crate) fn reap(&mut self) {
        // Fails only when it has been waited for.
        let _ = self.child.wait();
    }

    /// A process that is gone needs no signal.
    fn signal(&self, signal: Signal) {
        if let Some(group) = to_pid(self.pid()) {
            let _ = kill_process_group(group, signal);
        }
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(127), _) => "its program could not be run".to_owned(),
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// The last lines of a log; empty when it cannot be read, for it only adds to an error.
pub(crate) fn tail(path: &Path) -> String {
    let text = String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    let lines: Vec<_> = text.lines().collect();
    lines.get(lines.len().saturating_sub(TAIL_LINES)..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_early_death_is_reported_with_the_end_of_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let lock = File::create(dir.path().join("lock")).unwrap();
        let lifeline = Lifeline::new(&dir.path().join("none"), &lock).unwrap();
        let args = ["-c".to_owned(), "echo starting; echo 'bind: address in use' >&2; exit 3".to_owned()];
        let log = dir.path().join("etcd.log");
        let mut process = Process::start("etcd", Path::new("sh"), &args, &[], log, &lifeline).unwrap();
        process.reap();
        let error = process.ensure_running().unwrap_err().to_string();
        assert!(
            error.contains("etcd ended (exit code 3)") && error.contains("bind: address in use"),
            "{error}"
        );
    }

    #[test]
    fn a_process_deaf_to_the_polite_signal_is_killed() {
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
    fn a_tail_is_short() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        fs::write(&path, (0..100).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n")).unwrap();
        let tail = tail(&path);
        assert!(tail.starts_with("line 85") && tail.ends_with("line 99"), "{tail}");
    }
}
