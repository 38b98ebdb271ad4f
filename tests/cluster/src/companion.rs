//! Programs that run beside a cluster and end with their starter: a manager, for example.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::Cluster;
use crate::lifeline::Lifeline;
use crate::process::{Process, tail};
use crate::state::private_dir;

/// How long a companion may take to end when asked; the time that a kubelet's default grace period leaves is longer.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// A program that runs beside a cluster. Killed when dropped, and when this process ends in any way.
#[derive(Debug)]
pub struct Companion {
    // The order of the fields is the order of their end.
    lifeline: Lifeline,
    process: Option<Process>,
    log: PathBuf,
}

impl Cluster {
    /// Starts a program; what it prints is appended to a log in the cluster's directory.
    pub fn companion(
        &self,
        name: &str,
        program: &Path,
        args: &[String],
        env: &[(String, String)],
    ) -> Result<Companion> {
        let dir = self.record().dir.join("companions");
        private_dir(&dir)?;
        let log = dir.join(format!("{name}.log"));
        let scratch = dir.join(format!("{name}-{}", crate::namespace::random_suffix()));
        private_dir(&scratch)?;
        let lock = File::create(dir.join(format!("{name}.lock"))).context("make a companion's lock file")?;
        let lifeline = Lifeline::new(&scratch, &lock)?;
        let process = Process::start(name, program, args, env, log.clone(), &lifeline)?;
        Ok(Companion { lifeline, process: Some(process), log })
    }
}

impl Companion {
    /// The process.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().map_or(0, Process::pid)
    }

    /// Where its output goes.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The last lines of its output.
    pub fn log_tail(&self) -> String {
        tail(&self.log)
    }

    /// # Errors
    /// When it has ended by itself; carries the end of its log.
    pub fn ensure_running(&mut self) -> Result<()> {
        self.process.as_mut().map_or(Ok(()), Process::ensure_running)
    }

    /// Asks it to end (SIGTERM), and kills it after ten seconds.
    pub fn stop(mut self) -> Result<()> {
        self.process.take().map_or(Ok(()), |process| process.stop(STOP_PATIENCE, &self.lifeline))
    }

    /// Ends it without warning (SIGKILL).
    pub fn kill(mut self) -> Result<()> {
        self.process.take().map_or(Ok(()), |process| process.kill(&self.lifeline))
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        self.lifeline.cut();
        if let Some(process) = &mut self.process {
            process.reap();
        }
    }
}
