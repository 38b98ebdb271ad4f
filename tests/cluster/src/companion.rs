//! Programs that run beside a cluster, for example a manager, and stop with the process that
//! started them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::Cluster;
use crate::lifeline::Lifeline;
use crate::private_dir::private_dir;
use crate::process::{Process, tail};

/// Time that a companion has to stop after SIGTERM. A kubelet's default grace period is longer.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// A program that runs beside a cluster. It is killed when this value is dropped and when this
/// process ends.
#[derive(Debug)]
pub struct Companion {
    // Fields are dropped in this order.
    lifeline: Lifeline,
    process: Option<Process>,
    log: PathBuf,
}

impl Cluster {
    /// Starts a program and appends its output to a log in the cluster's directory.
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
        let lock =
            File::create(dir.join(format!("{name}.lock"))).context("create the lock file of a companion")?;
        let lifeline = Lifeline::new(&scratch, &lock)?;
        let process = Process::start(name, program, args, env, log.clone(), &lifeline)?;
        Ok(Companion { lifeline, process: Some(process), log })
    }
}

impl Companion {
    /// Returns the process ID.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().map_or(0, Process::pid)
    }

    /// Returns the path of the log.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Returns the last lines of the output.
    pub fn log_tail(&self) -> String {
        tail(&self.log)
    }

    /// Checks that the program runs.
    ///
    /// # Errors
    /// Returns an error with the end of the log if the program has exited.
    pub fn ensure_running(&mut self) -> Result<()> {
        self.process.as_mut().map_or(Ok(()), Process::ensure_running)
    }

    /// Sends SIGTERM, and SIGKILL after ten seconds.
    pub fn stop(mut self) -> Result<()> {
        self.process.take().map_or(Ok(()), |process| process.stop(STOP_PATIENCE, &self.lifeline))
    }

    /// Sends SIGKILL.
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
