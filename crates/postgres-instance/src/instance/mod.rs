//! The main loop: observe, plan, perform the command, and report.

mod archive;
mod handover;
mod observe;
mod perform;
mod report;
mod retry;
mod upgrade;

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::Result;
use postgres_model::{
    in_force::InForce,
    instance::{Command, LeaseIntent, Moment, Plan, Problem, Server, StopMode, plan},
    timeline::Position,
};
use tokio::{signal::unix::Signal, sync::watch, time::sleep};
use tokio_util::task::AbortOnDropHandle;
use tracing::{error, info, warn};

pub(crate) use self::retry::Retry;
use crate::{
    archive::{ArchiveState, Archiving, RunningBackup},
    clock::now,
    cluster::{Cluster, MemberCluster},
    control_data::ControlFile,
    declared::Declared,
    disk::Disk,
    election::Election,
    fence::Fence,
    metrics::Observations,
    parameters::AcceptedParameters,
    probe::Probe,
    recovery::Progress,
    roles::Roles,
    server::PostgresServer,
    session::Answer,
    slots::Slots,
    status_api::{BackupRequest, Health, StatusHandle},
    tasks::RunningTask,
    upgrade::{Previous, UpgradeAttempts},
    volume::Volume,
};

/// Time between two looks, if nothing changes.
const TICK: Duration = Duration::from_secs(1);
/// Time between two looks at a server that stops.
const STOPPING: Duration = Duration::from_millis(100);
/// A server that ends by itself within this time has failed to start.
const SHORT: Duration = Duration::from_secs(10);
/// How long the release of the Lease may take at the end.
const RELEASE: Duration = Duration::from_secs(3);
/// How long a fast shutdown may take when the Pod ends.
const FAST_SHUTDOWN: Duration = Duration::from_secs(110);

/// An instance, with all that it works with.
pub(crate) struct Instance {
    pub(crate) member: String,
    /// UID of the cluster that the member obeys.
    pub(crate) cluster_uid: String,
    pub(crate) pod_uid: String,
    pub(crate) socket: PathBuf,
    pub(crate) volume: Volume,
    pub(crate) disk: Disk,
    pub(crate) server: PostgresServer,
    pub(crate) fence: Fence,
    pub(crate) election: Election,
    pub(crate) clusters: watch::Receiver<Option<Cluster>>,
    pub(crate) status: StatusHandle,
    pub(crate) seals: watch::Receiver<Option<u64>>,
    pub(crate) health: Arc<Health>,
    /// What the metrics tell of the main loop.
    pub(crate) observations: Arc<Observations>,
    pub(crate) probe: Probe,
    pub(crate) archiving: Arc<Archiving>,
    pub(crate) archive_changes: watch::Receiver<ArchiveState>,
    pub(crate) backup_requests: watch::Receiver<Option<BackupRequest>>,
    pub(crate) switch_requests: watch::Receiver<Option<String>>,
    /// The last backup that was asked for.
    pub(crate) backup: Option<RunningBackup>,
    pub(crate) task: Option<RunningTask>,
    /// The recovery of the database from another archive.
    pub(crate) recovery: Arc<Progress>,
    /// Programs of the major version from which the data are upgraded.
    pub(crate) previous: Option<Previous>,
    /// Attempts to upgrade the data.
    pub(crate) upgrade_attempts: UpgradeAttempts,
    /// Collects the statistics of upgraded data.
    pub(crate) analysis: Option<AbortOnDropHandle<()>>,
    /// What `pg_controldata` said. `None` if it may have changed.
    pub(crate) control: Option<ControlFile>,
    /// Where the WAL of a standby ends that is being stopped.
    pub(crate) end: Option<Position>,
    /// The parameters of the spec.
    pub(crate) parameters: AcceptedParameters,
    /// The roles and the database that a primary must have.
    pub(crate) roles: Roles,
    /// The roles and databases of the spec.
    pub(crate) declared: Declared,
    /// The replication slots of the members.
    pub(crate) slots: Slots,
    /// The synchronous configuration of the primary that started at this moment.
    pub(crate) in_force: (Option<Moment>, InForce),
    /// Starts and long commands that failed.
    pub(crate) retry: Retry,
    /// When the member was sealed. Older answers of PostgreSQL do not tell all that it has.
    pub(crate) sealed_at: Moment,
    /// The last error and problem, which are logged once.
    pub(crate) last_error: Option<String>,
    pub(crate) last_problem: Option<Problem>,
}

impl Instance {
    /// Runs until `terminate`, and then stops PostgreSQL and releases the Lease.
    pub(crate) async fn run(mut self, mut terminate: Signal) {
        loop {
            self.health.main_loop_ticked();
            let has_acted = match self.step().await {
                Ok(has_acted) => {
                    self.last_error = None;
                    has_acted
                }
                Err(error) => self.failed(&error),
            };
            let pause = match (has_acted, self.is_stopping()) {
                (true, _) => Duration::ZERO,
                (false, true) => STOPPING,
                (false, false) => self.next_look(),
            };
            tokio::select! {
                () = sleep(pause) => {}
                () = self.server.wait() => {}
                () = self.election.changed() => {}
                () = self.probe.changed() => {}
                () = self.roles.changed() => {}
                () = self.declared.changed() => {}
                () = self.slots.changed() => {}
                Ok(()) = self.archive_changes.changed() => {}
                Ok(()) = self.backup_requests.changed() => {}
                Ok(()) = self.switch_requests.changed() => self.switch_wal(),
                () = backup_changed(self.backup.as_mut()) => {}
                result = wait_for(self.task.as_mut()) => self.finish(result).await,
                Ok(()) = self.clusters.changed() => {}
                Ok(()) = self.seals.changed() => {}
                Some(()) = terminate.recv() => return self.terminate().await,
            }
        }
    }

    /// Performs one step. Returns whether it did something that the next step should see at once.
    async fn step(&mut self) -> Result<bool> {
        self.note_end().await?;
        self.volume.finish_upgrade()?;
        let cluster = self.clusters.borrow_and_update().clone();
        let (uid, member) = (&self.cluster_uid, &self.member);
        let cluster = cluster.and_then(|cluster| MemberCluster::new(&cluster, uid, member));
        // A status that was edited by hand can name another database.
        let cluster = cluster.filter(|cluster| cluster.creator == self.volume.state().cluster_uid);
        if let Some(cluster) = &cluster {
            self.consider_parameters(cluster).await;
        }
        self.retry.set_epoch(cluster.as_ref().map(|cluster| cluster.view.epoch));
        let observed = self.observe(cluster.as_ref()).await?;
        let plan = plan(&observed);
        self.disk.apply(plan.ballast).await;
        self.fence.set_required(observed.cluster.as_ref().is_none_or(|view| view.fencing));
        self.election.set(plan.lease.clone());
        self.log_problem(&plan);
        self.set_archive_context(&observed, cluster.as_ref());
        self.consider_backup();
        let result = match &plan.command {
            Some(command) if is_start(command) && !self.retry.is_due(now()) => Ok(false),
            Some(command) => self.perform(command, &observed, cluster.as_ref()).await.map(|()| true),
            None => self.reload(cluster.as_ref()).map(|()| false),
        };
        let epoch = observed.cluster.as_ref().map(|view| view.epoch);
        let database = cluster.as_ref().map(|cluster| cluster.application.database.as_str());
        self.observations.note(epoch, &observed.space, database);
        self.report(&plan, &observed);
        result
    }

    /// Returns the time until the next look, if nothing changes. A server that runs can fill its volume.
    fn next_look(&self) -> Duration {
        let runs = self.server.started().is_some();
        if runs { TICK.min(self.disk.space().next_look()) } else { TICK }
    }

    /// Nothing waits for parameters that cannot be checked.
    async fn consider_parameters(&mut self, cluster: &MemberCluster) {
        let (programs, volume) = (&self.server.programs, self.volume.root());
        if let Err(error) = self.parameters.consider(&cluster.parameters, programs, volume).await {
            self.failed(&error.context("cannot check the parameters of the spec"));
        }
    }

    /// Returns the last answer of PostgreSQL, unless the member was sealed after the question.
    fn answer(&self) -> Option<Answer> {
        let recovers = self.volume.state().recovery.is_some();
        let answer = self.probe.answer_since(self.sealed_at)?;
        // A recovery pauses at its target, and has replayed all that it asks for.
        Some(Answer { at_end: answer.at_end || (recovers && answer.paused), ..answer })
    }

    /// Notes that PostgreSQL has ended.
    async fn note_end(&mut self) -> Result<()> {
        let started = self.server.started();
        let Some(ended) = self.server.ended().await else { return Ok(()) };
        if ended.by_itself && started.is_some_and(|started| now().saturating_sub(started) < SHORT) {
            self.retry.failed(now());
        }
        (self.control, self.task) = (None, None);
        self.roles.set_server(None);
        self.declared.set_server(None);
        self.slots.set_server(None);
        self.probe.set_server(None);
        let end = self.end.take().filter(|_| ended.cleanly && !ended.was_primary);
        if end.is_some() {
            self.volume.update(|state| state.last_clean_stop = end)?;
        }
        Ok(())
    }

    fn is_stopping(&self) -> bool {
        matches!(self.server.observe(false), Server::Stopping { .. })
    }

    /// Logs an error, unless it is the same as before. Returns that nothing was done.
    fn failed(&mut self, error: &anyhow::Error) -> bool {
        let message = format!("{error:#}");
        if self.last_error.as_ref() != Some(&message) {
            error!(error = message, "the step failed; trying again");
            self.last_error = Some(message);
        }
        false
    }

    fn log_problem(&mut self, plan: &Plan) {
        if std::mem::replace(&mut self.last_problem, plan.problem) == plan.problem {
            return;
        }
        if let Some(problem) = plan.problem {
            warn!(%problem, "the member waits");
        } else {
            info!("the member goes on");
        }
    }

    /// Stops PostgreSQL, and releases the Lease after that. A primary then waits for its successor.
    async fn terminate(mut self) {
        info!("the Pod ends: stopping PostgreSQL");
        self.task = None;
        self.archiving.stop();
        self.server.stop(StopMode::Fast);
        let end = now() + FAST_SHUTDOWN;
        while self.server.started().is_some() {
            self.health.main_loop_ticked();
            if now() >= end {
                self.server.stop(StopMode::Immediate);
            }
            tokio::select! {
                () = sleep(STOPPING) => {}
                () = self.server.wait() => {}
            }
            if let Err(error) = self.note_end().await {
                self.failed(&error);
            }
        }
        let was_primary = self.election.view().epoch.is_some();
        self.election.set(LeaseIntent::Release);
        let end = now() + RELEASE;
        while self.election.view().epoch.is_some() && now() < end {
            tokio::select! {
                () = sleep(STOPPING) => {}
                () = self.election.changed() => {}
            }
        }
        if was_primary {
            handover::wait_for_successor(&mut self.clusters, &self.cluster_uid, &self.member).await;
        }
    }
}

/// Returns whether a command starts something that can fail again and again.
fn is_start(command: &Command) -> bool {
    !matches!(command, Command::Stop(_) | Command::Seal { .. } | Command::Follow { .. })
}

/// Waits until a backup reports something else.
async fn backup_changed(backup: Option<&mut RunningBackup>) {
    let changed = match backup {
        Some(backup) => backup.changed().await,
        None => false,
    };
    if !changed {
        std::future::pending::<()>().await;
    }
}

async fn wait_for(task: Option<&mut RunningTask>) -> Result<()> {
    match task {
        Some(task) => task.wait().await,
        None => std::future::pending().await,
    }
}
