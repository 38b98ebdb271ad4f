//! Child processes of the first process of a container.
//!
//! The first process gets the orphans of all others, and has to reap them. So one place reaps all
//! processes, and tells those who wait for one of them.

use std::{collections::HashMap, io, process::Command, sync::Arc};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group, wait};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};
use tracing::warn;

/// Held by a test that starts processes. [`Processes`] reaps all children, also those of other tests.
#[cfg(test)]
pub(crate) static CHILDREN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

type Waiting = Arc<Mutex<HashMap<Pid, oneshot::Sender<WaitStatus>>>>;

/// All child processes.
#[derive(Clone)]
pub(crate) struct Processes {
    waiting: Waiting,
}

/// A child process. It is killed when this is dropped before it has ended.
pub(crate) struct Process {
    pub(crate) pid: Pid,
    pub(crate) stdout: Option<std::process::ChildStdout>,
    pub(crate) stderr: Option<std::process::ChildStderr>,
    exit: oneshot::Receiver<WaitStatus>,
    status: Option<WaitStatus>,
}

impl Processes {
    /// Starts to reap child processes.
    ///
    /// # Errors
    /// Returns an error if the signal handler cannot be installed.
    pub(crate) fn new() -> io::Result<Self> {
        let waiting = Waiting::default();
        let mut ended = signal(SignalKind::child())?;
        let reaped = waiting.clone();
        tokio::spawn(async move {
            while ended.recv().await.is_some() {
                reap(&reaped);
            }
        });
        Ok(Self { waiting })
    }

    /// Starts a process.
    ///
    /// # Errors
    /// Returns an error if the program cannot be executed.
    pub(crate) fn spawn(&self, command: &mut Command) -> io::Result<Process> {
        // Nothing is reaped meanwhile, not even a process whose program cannot be executed.
        let mut waiting = self.waiting.lock();
        let mut child = command.spawn()?;
        let pid = Pid::from_child(&child);
        let (sender, exit) = oneshot::channel();
        waiting.insert(pid, sender);
        Ok(Process { pid, stdout: child.stdout.take(), stderr: child.stderr.take(), exit, status: None })
    }

    /// Kills all processes but this one, and returns when there are none any more.
    ///
    /// Only for the first process of a PID namespace.
    pub(crate) async fn kill_all(&self) {
        while kill_all().is_ok() {
            reap(&self.waiting);
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    }
}

/// Sends SIGKILL to all processes of the PID namespace but this one.
///
/// Returns an error if there are none, and if this is not the first process of the namespace.
pub(crate) fn kill_all() -> rustix::io::Result<()> {
    if getpid() != Pid::INIT {
        return Err(rustix::io::Errno::PERM);
    }
    // The process group is negated for kill(2), and -1 stands for all processes.
    kill_process_group(Pid::INIT, Signal::KILL)
}

fn reap(waiting: &Waiting) {
    let mut waiting = waiting.lock();
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                if let Some(waiter) = waiting.remove(&pid) {
                    // Nobody may wait any more.
                    let _ = waiter.send(status);
                }
            }
            Ok(None) | Err(rustix::io::Errno::CHILD) => return,
            Err(error) => return warn!(%error, "cannot reap child processes"),
        }
    }
}

impl Process {
    /// Sends a signal, unless the process has ended.
    pub(crate) fn kill(&mut self, signal: Signal) {
        if self.try_wait().is_none()
            && let Err(error) = kill_process(self.pid, signal)
        {
            warn!(pid = self.pid.as_raw_nonzero().get(), %error, "cannot signal a process");
        }
    }

    /// Returns how the process ended, if it has.
    pub(crate) fn try_wait(&mut self) -> Option<WaitStatus> {
        self.status = self.status.or_else(|| self.exit.try_recv().ok());
        self.status
    }

    /// Waits until the process has ended. Can be cancelled and called again.
    pub(crate) async fn wait(&mut self) -> WaitStatus {
        loop {
            if let Some(status) = self.try_wait() {
                return status;
            }
            // The sender is kept until the process has ended.
            self.status = (&mut self.exit).await.ok();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill(Signal::KILL);
    }
}
