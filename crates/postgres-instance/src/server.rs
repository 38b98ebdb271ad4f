//! The PostgreSQL server of the member.

use std::{fs, io, path::PathBuf, time::Duration};

use postgres_model::instance::{Moment, Server, StopMode};
use rustix::process::Signal;
use tracing::{info, warn};

use crate::{
    clock::now,
    configuration::{Dynamic, PORT, Static, refuse_alter_system},
    control_data::remove_histories_above,
    durable,
    fence::{Expired, Fence},
    processes::{Process, Processes},
    programs::{ProgramError, Programs, describe},
    volume::{Volume, VolumeError, failed},
};

/// How long an immediate shutdown may take before all processes are killed.
const IMMEDIATE: Duration = Duration::from_secs(5);

/// PostgreSQL, and what is needed to start it.
pub(crate) struct PostgresServer {
    pub(crate) programs: Programs,
    pub(crate) fixed: Static,
    processes: Processes,
    fence: Fence,
    dynamic: Dynamic,
    running: Option<Running>,
}

struct Running {
    process: Process,
    started: Moment,
    is_primary: bool,
    stopping: Option<(StopMode, Moment)>,
}

/// How PostgreSQL ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Whether it was, or was about to be, a primary.
    pub(crate) was_primary: bool,
    /// Whether it stopped by a fast shutdown.
    pub(crate) cleanly: bool,
    /// Whether nobody asked it to stop.
    pub(crate) by_itself: bool,
}

/// Error of a start or a reload.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    /// The program cannot be started.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The Lease has expired.
    #[error(transparent)]
    Expired(#[from] Expired),
    /// A file cannot be written.
    #[error(transparent)]
    Volume(#[from] VolumeError),
}

impl PostgresServer {
    pub(crate) fn new(programs: Programs, fixed: Static, processes: Processes, fence: Fence) -> Self {
        Self { programs, fixed, processes, fence, dynamic: Dynamic::default(), running: None }
    }

    /// Returns the server as the plan sees it. `responsive` is whether a primary answers.
    pub(crate) fn observe(&self, responsive: bool) -> Server {
        match &self.running {
            None => Server::Down,
            Some(Running { stopping: Some((mode, since)), .. }) => {
                Server::Stopping { mode: *mode, since: *since }
            }
            Some(Running { is_primary: true, .. }) => Server::Primary { responsive },
            Some(_) => Server::Standby { upstream: self.dynamic.upstream.as_ref().map(|it| it.name.clone()) },
        }
    }

    /// Returns when PostgreSQL was started. Returns `None` if it does not run.
    pub(crate) fn started(&self) -> Option<Moment> {
        self.running.as_ref().map(|running| running.started)
    }

    /// Returns whether PostgreSQL is, or is about to be, a primary. Also while it stops.
    pub(crate) fn is_primary(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.is_primary)
    }

    /// Returns what changes by a reload.
    pub(crate) fn dynamic(&self) -> &Dynamic {
        &self.dynamic
    }

    /// Starts a standby.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written, or the program not started.
    pub(crate) fn start_standby(&mut self, volume: &Volume, dynamic: Dynamic) -> Result<(), ServerError> {
        let signal = volume.data().join("standby.signal");
        durable::write(&signal, b"", 0o600).map_err(failed("write", &signal))?;
        self.prepare(volume, dynamic)?;
        let process = self.spawn(volume)?;
        self.running = Some(Running { process, started: now(), is_primary: false, stopping: None });
        Ok(())
    }

    /// Starts read-write, unless the Lease has expired.
    ///
    /// # Errors
    /// Returns an error if the Lease has expired, a file cannot be written, or the program not
    /// started.
    pub(crate) fn start_primary(&mut self, volume: &Volume, dynamic: Dynamic) -> Result<(), ServerError> {
        self.prepare(volume, dynamic)?;
        let signal = volume.data().join("standby.signal");
        let fence = self.fence.clone();
        let mut started = None;
        fence.permit(|| -> Result<_, ServerError> {
            durable::remove(&signal).map_err(failed("remove", &signal))?;
            let process = self.spawn(volume)?;
            let pid = process.pid;
            started = Some(process);
            Ok(pid)
        })?;
        self.running =
            started.map(|process| Running { process, started: now(), is_primary: true, stopping: None });
        Ok(())
    }

    /// Lets a standby be promoted, unless the Lease has expired.
    ///
    /// # Errors
    /// Returns an error if the Lease has expired.
    pub(crate) fn permit_promotion(&mut self) -> Result<(), ServerError> {
        let Some(running) = &mut self.running else { return Ok(()) };
        self.fence.permit(|| Ok::<_, ServerError>(running.process.pid))?;
        running.is_primary = true;
        Ok(())
    }

    /// Applies a configuration by a reload. Does nothing if it is in force.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub(crate) fn reload(&mut self, volume: &Volume, dynamic: Dynamic) -> Result<(), ServerError> {
        // PostgreSQL would have to start again for another recovery, and for logical slots.
        let (recovery, slots) = (self.dynamic.recovery.take(), self.dynamic.slots.take());
        self.dynamic = Dynamic { recovery, slots: slots.and(dynamic.slots), ..dynamic };
        let changed =
            self.fixed.write(volume.root(), &self.dynamic).map_err(failed("write", volume.root()))?;
        if let (true, Some(running)) = (changed, &mut self.running) {
            running.process.kill(Signal::HUP);
        }
        Ok(())
    }

    /// Begins to stop PostgreSQL.
    pub(crate) fn stop(&mut self, mode: StopMode) {
        let Some(running) = &mut self.running else { return };
        info!(?mode, "stopping PostgreSQL");
        running.process.kill(match mode {
            StopMode::Fast => Signal::INT,
            StopMode::Immediate => Signal::QUIT,
        });
        running.stopping = Some((mode, now()));
    }

    /// Returns how PostgreSQL ended, once, after all of its processes have ended.
    pub(crate) async fn ended(&mut self) -> Option<Ended> {
        let running = self.running.as_mut()?;
        if let Some((StopMode::Immediate, since)) = running.stopping
            && now().saturating_sub(since) > IMMEDIATE
        {
            warn!("PostgreSQL has not stopped: killing all of its processes");
            self.processes.kill_all().await;
        }
        let status = running.process.try_wait()?;
        // A postmaster that was killed leaves processes that still answer clients.
        self.processes.kill_all().await;
        self.fence.ended();
        let (was_primary, stopping) = (running.is_primary, running.stopping);
        self.running = None;
        info!(status = describe(status), "PostgreSQL has ended");
        let was_fast = matches!(stopping, Some((StopMode::Fast, _)));
        Some(Ended {
            was_primary,
            cleanly: was_fast && status.exit_status() == Some(0),
            by_itself: stopping.is_none(),
        })
    }

    /// Waits until the postmaster has ended.
    pub(crate) async fn wait(&mut self) {
        match &mut self.running {
            Some(running) => drop(running.process.wait().await),
            None => std::future::pending().await,
        }
    }

    fn prepare(&mut self, volume: &Volume, dynamic: Dynamic) -> Result<(), ServerError> {
        let data = volume.data();
        self.dynamic = dynamic;
        self.fixed.write(volume.root(), &self.dynamic).map_err(failed("write", volume.root()))?;
        refuse_alter_system(&data).map_err(failed("write postgresql.auto.conf in", &data))?;
        // Left by a server that was killed. The lock of the volume shows that it does not run.
        let socket = self.fixed.socket.join(format!(".s.PGSQL.{PORT}.lock"));
        for stale in [data.join("postmaster.pid"), socket] {
            durable::remove(&stale).map_err(failed("remove", &stale))?;
        }
        Ok(())
    }

    fn spawn(&self, volume: &Volume) -> Result<Process, ServerError> {
        const PROGRAM: &str = "postgres";
        let file = volume.root().join("postgresql.conf");
        let mut command = self.programs.command(PROGRAM);
        command.arg("-D").arg(volume.data()).arg("-c").arg(format!("config_file={}", file.display()));
        Ok(self.programs.spawn(PROGRAM, &mut command)?)
    }
}

/// Removes history files that keep a standby from following a primary.
///
/// # Errors
/// Returns the error of the file system.
pub(crate) fn remove_stray_histories(
    volume: &Volume,
    control: postgres_model::timeline::TimelineId,
) -> Result<(), VolumeError> {
    let data = volume.data();
    remove_histories_above(&data, volume.highest_timeline(control))
        .map_err(failed("remove history files of", &data))
}

/// Returns whether a process receives WAL, by the titles of the processes.
///
/// # Errors
/// Returns an error if the processes cannot be listed.
pub(crate) fn receives_wal() -> io::Result<bool> {
    let is_receiver = |path: PathBuf| {
        fs::read(path).is_ok_and(|title| String::from_utf8_lossy(&title).contains(": walreceiver"))
    };
    for entry in fs::read_dir("/proc")? {
        if is_receiver(entry?.path().join("cmdline")) {
            return Ok(true);
        }
    }
    Ok(false)
}
