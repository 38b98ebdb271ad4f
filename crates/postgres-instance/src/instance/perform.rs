//! Performs the commands of the plan.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use postgres_model::{
    instance::{Command, Observed, Server, StopMode, Task},
    slots::{FIRST_MAJOR, name as slot_name},
    timeline::{TimelineId, stub_histories},
};
use tokio::time::sleep;
use tracing::{error, info, warn};

use super::Instance;
use crate::{
    clock::now,
    cluster::MemberCluster,
    configuration::{Dynamic, SlotNames},
    control_data::{newest_history, path},
    declared, durable, recovery,
    recovery_target::RecoveryEnd,
    roles,
    server::{receives_wal, remove_stray_histories},
    slots,
    tasks::{self, RunningTask},
};

/// How long a WAL receiver may take to end.
const SEAL: Duration = Duration::from_secs(5);
/// What programs of PostgreSQL print when a volume is full. Their messages are in English.
const NO_SPACE: &str = "No space left on device";
/// Time between two looks for WAL receivers. The startup process reads the configuration within it.
const QUIET: Duration = Duration::from_millis(50);

impl Instance {
    pub(super) async fn perform(
        &mut self,
        command: &Command,
        observed: &Observed,
        cluster: Option<&MemberCluster>,
    ) -> Result<()> {
        let Some(cluster) = cluster else {
            // Only a stop needs no cluster.
            if let Command::Stop(mode) = command {
                self.server.stop(*mode);
            }
            return Ok(());
        };
        match command {
            Command::CreateDatabase => self.create_database(),
            Command::Restore => self.restore(cluster),
            Command::Clone { primary } => self.clone_from(primary, cluster),
            Command::Rewind { primary } => self.rewind(primary, cluster),
            Command::StartStandby { upstream } => self.start_standby(upstream.as_deref(), cluster),
            Command::StartPrimary => self.start_primary(cluster),
            Command::Follow { upstream } => self.follow(upstream, cluster),
            Command::Seal { epoch } => self.seal(*epoch, cluster).await,
            Command::Promote { timeline } => self.promote(*timeline, cluster),
            Command::Upgrade => self.upgrade(),
            Command::Stop(mode) => {
                self.end = self.replayed_end().filter(|_| !observed_primary(observed));
                self.archiving.stop();
                self.server.stop(*mode);
                Ok(())
            }
        }
    }

    /// Applies a configuration that has changed, and has the roles of a primary looked after.
    pub(super) fn reload(&mut self, cluster: Option<&MemberCluster>) -> Result<()> {
        let Some(cluster) = cluster.filter(|_| self.server.started().is_some() && !self.is_stopping()) else {
            return Ok(());
        };
        let wanted = if matches!(self.server.observe(false), Server::Primary { .. }) {
            self.primary(cluster)?
        } else {
            let upstream = self.server.dynamic().upstream.as_ref().map(|upstream| upstream.name.as_str());
            self.standby(upstream, cluster)
        };
        self.server.reload(&self.volume, wanted)?;
        let answer = self.answer();
        let others = cluster.members().filter(|member| *member != self.member).map(slot_name);
        let slots = self.server.dynamic().slots.as_ref().map(|_| others.collect());
        let answers = self.server.started().filter(|_| answer.is_some());
        self.slots.set_server(answers.map(|started| slots::Server { started, slots }));
        let is_primary = answer.is_some_and(|answer| !answer.in_recovery);
        let primary = self.server.started().filter(|_| is_primary);
        let (application, objects) = (cluster.application.clone(), cluster.declared.clone());
        let owner = application.owner.clone();
        // The role of the application can own databases.
        let prepared = primary.filter(|_| self.roles.were_attempted(primary));
        self.declared.set_server(prepared.map(|started| declared::Primary { started, objects, owner }));
        self.roles.set_server(primary.map(|started| roles::Primary { started, application }));
        self.consider_statistics(primary.is_some());
        Ok(())
    }

    fn create_database(&mut self) -> Result<()> {
        self.volume.clear_partial()?;
        self.volume.update(|state| state.own_timeline = Some(TimelineId::FIRST))?;
        info!("creating the database");
        let work = tasks::create_database(self.server.programs.clone(), self.volume.partial());
        self.task = Some(RunningTask::start(Task::CreateDatabase, work));
        Ok(())
    }

    fn restore(&mut self, cluster: &MemberCluster) -> Result<()> {
        let settings = cluster.recovery.clone().context("status.recovery names no archive")?;
        self.volume.clear_partial()?;
        self.disk.begin_copy();
        let (source, programs) = (self.archiving.source(), self.server.programs.clone());
        let work =
            recovery::restore(source, settings, programs, self.volume.partial(), self.recovery.clone());
        self.task = Some(RunningTask::start(Task::Restore, work));
        Ok(())
    }

    fn clone_from(&mut self, primary: &str, cluster: &MemberCluster) -> Result<()> {
        self.volume.clear_partial()?;
        self.disk.begin_copy();
        self.volume.update(|state| {
            state.own_timeline = None;
            state.followed_timeline = Some(cluster.view.timeline);
        })?;
        info!(primary, "cloning the primary");
        let conninfo = self.server.fixed.source(&cluster.upstream(primary), None);
        let work = tasks::clone(self.server.programs.clone(), conninfo, self.volume.partial());
        self.task = Some(RunningTask::start(Task::Clone, work));
        Ok(())
    }

    fn rewind(&mut self, primary: &str, cluster: &MemberCluster) -> Result<()> {
        self.volume.update(|state| {
            state.rewind_begun = true;
            state.last_clean_stop = None;
        })?;
        info!(primary, "removing WAL that the primary lacks");
        let conninfo = self.server.fixed.source(&cluster.upstream(primary), Some("postgres"));
        let restore = self.server.fixed.wal.restore(cluster.backup.is_some()).to_owned();
        self.archiving.rewind(cluster.view.timeline);
        let work = tasks::rewind(self.server.programs.clone(), conninfo, restore, self.volume.data());
        self.task = Some(RunningTask::start(Task::Rewind, work));
        Ok(())
    }

    fn promote(&mut self, timeline: TimelineId, cluster: &MemberCluster) -> Result<()> {
        let data = self.volume.data();
        let control = self.control.as_ref().context("the control data are not known")?;
        let present = newest_history(&data, self.volume.highest_timeline(control.timeline))?;
        self.volume.update(|state| {
            state.promotion_begun = Some(timeline);
            state.last_clean_stop = None;
        })?;
        for stub in stub_histories(present.timeline(), timeline)? {
            let path = path(&data, stub.timeline());
            durable::write(&path, stub.to_string().as_bytes(), 0o600)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        let dynamic = self.primary(cluster)?;
        self.server.reload(&self.volume, dynamic)?;
        self.server.permit_promotion()?;
        info!(%timeline, "promoting");
        self.task = Some(RunningTask::start(Task::Promote, tasks::promote(self.socket.clone(), timeline)));
        Ok(())
    }

    fn start_standby(&mut self, upstream: Option<&str>, cluster: &MemberCluster) -> Result<()> {
        let control = self.control.as_ref().context("the control data are not known")?;
        remove_stray_histories(&self.volume, control.timeline)?;
        self.volume.update(|state| {
            state.last_clean_stop = None;
            if upstream.is_some() {
                state.followed_timeline = Some(cluster.view.timeline);
            }
        })?;
        info!(upstream, "starting as a standby");
        let dynamic = self.standby(upstream, cluster);
        self.archiving.server_starts();
        self.server.start_standby(&self.volume, dynamic)?;
        self.control = None;
        Ok(())
    }

    fn start_primary(&mut self, cluster: &MemberCluster) -> Result<()> {
        // The plan starts it on its own timeline only.
        self.volume.update(|state| {
            state.last_clean_stop = None;
            state.own_timeline = Some(cluster.view.timeline);
            (state.promotion_begun, state.recovery) = (None, None);
        })?;
        info!("starting as the primary");
        let dynamic = self.primary(cluster)?;
        self.server.start_primary(&self.volume, dynamic)?;
        Ok(())
    }

    fn follow(&mut self, upstream: &str, cluster: &MemberCluster) -> Result<()> {
        self.volume.update(|state| state.followed_timeline = Some(cluster.view.timeline))?;
        info!(upstream, "following");
        let dynamic = self.standby(Some(upstream), cluster);
        self.server.reload(&self.volume, dynamic)?;
        Ok(())
    }

    /// Stops the receiver, and then makes the epoch durable.
    ///
    /// The configuration removes the private key first, so a receiver that has no title yet, and is
    /// not seen here, cannot connect any more.
    async fn seal(&mut self, epoch: u64, cluster: &MemberCluster) -> Result<()> {
        self.archiving.wait();
        if self.server.started().is_some() {
            let dynamic = self.standby(None, cluster);
            self.server.reload(&self.volume, dynamic)?;
            if self.server.dynamic().slots.is_some()
                && let Err(error) = slots::end_synchronization(&self.socket).await
            {
                warn!(%error, "cannot end the synchronization of replication slots, for which a promotion waits");
            }
            let end = now() + SEAL;
            let mut quiet = 0;
            while quiet < 2 {
                if now() >= end {
                    bail!("cannot seal the member at epoch {epoch}: its WAL receiver has not ended");
                }
                quiet = if receives_wal()? { 0 } else { quiet + 1 };
                sleep(QUIET).await;
            }
            self.sealed_at = now();
            self.probe.ask_now();
        }
        self.volume.update(|state| state.sealed_epoch = Some(epoch))?;
        info!(epoch, "sealed");
        Ok(())
    }

    fn synchronizes_slots(&self, cluster: &MemberCluster) -> bool {
        cluster.synchronizes_slots && self.server.fixed.major_version >= FIRST_MAJOR
    }

    /// Returns the configuration of a standby. One that recovers archives nothing: the WAL is that of
    /// another cluster.
    fn standby(&self, upstream: Option<&str>, cluster: &MemberCluster) -> Dynamic {
        let recovery = self.volume.state().recovery;
        let target = cluster.recovery.as_ref().map(|settings| settings.target.clone()).unwrap_or_default();
        Dynamic {
            upstream: upstream.map(|member| cluster.upstream(member)),
            volume: self.disk.space().total,
            archive_timeout: archive_timeout(cluster).filter(|_| recovery.is_none()),
            recovery: recovery.map(|recovery| RecoveryEnd { timeline: recovery.timeline, target }),
            parameters: self.parameters.accepted().clone(),
            slots: self.synchronizes_slots(cluster).then(|| SlotNames {
                upstream: upstream.filter(|_| cluster.has_slot).map(|_| slot_name(&self.member)),
                standbys: Vec::new(),
            }),
            ..Dynamic::default()
        }
    }

    /// Returns the configuration of a primary.
    fn primary(&self, cluster: &MemberCluster) -> Result<Dynamic> {
        let sync = cluster.sync.clone().context("cannot apply status.sync of the PostgresCluster")?;
        let standbys = sync.members().iter().map(|member| slot_name(member)).collect();
        let slots = SlotNames { upstream: None, standbys };
        Ok(Dynamic {
            slots: Some(slots).filter(|_| self.synchronizes_slots(cluster)),
            upstream: None,
            sync,
            recovery: None,
            volume: self.disk.space().total,
            archive_timeout: archive_timeout(cluster),
            parameters: self.parameters.accepted().clone(),
        })
    }

    /// Takes the result of a task.
    pub(super) async fn finish(&mut self, result: Result<()>) {
        let Some(task) = self.task.take().map(|running| running.task) else { return };
        self.control = None;
        let result = match result {
            Ok(()) => self.complete(task).await,
            failed => failed,
        };
        if let Err(error) = result {
            self.retry.failed(now());
            error!(?task, error = format!("{error:#}"), "the task failed");
            match task {
                Task::Promote => self.server.stop(StopMode::Immediate),
                Task::Restore => {
                    self.recovery.failed(&format!("{error:#}"));
                    self.clear_copy(&error);
                }
                Task::Clone | Task::CreateDatabase => self.clear_copy(&error),
                // It is complete, and the next step goes on.
                Task::Upgrade if self.volume.state().upgraded.is_some() => {}
                Task::Upgrade => {
                    self.clear_copy(&error);
                    self.upgrade_failed(&error);
                }
                Task::Rewind => {}
            }
        }
    }

    /// Removes what a copy left that failed. One that did not fit is not tried again at once.
    fn clear_copy(&mut self, reason: &anyhow::Error) {
        if format!("{reason:#}").contains(NO_SPACE) {
            self.disk.copy_did_not_fit(now());
        }
        if let Err(error) = self.volume.clear_partial() {
            error!(%error, "cannot remove the rest of a copy; trying again before the next one");
        }
    }

    async fn complete(&mut self, task: Task) -> Result<()> {
        info!(?task, "the task is complete");
        self.retry.succeeded();
        match task {
            Task::CreateDatabase | Task::Clone => self.volume.complete_partial()?,
            Task::Restore => {
                let recovery =
                    self.recovery.recovery().context("the backup of a recovery was not planned")?;
                self.volume.update(|state| {
                    state.recovery = Some(recovery);
                    state.followed_timeline = Some(recovery.timeline);
                })?;
                self.volume.complete_partial()?;
            }
            Task::Upgrade => self.complete_upgrade().await?,
            Task::Rewind => self.volume.update(|state| state.rewind_begun = false)?,
            Task::Promote => self.volume.update(|state| {
                state.own_timeline = state.promotion_begun.take();
                state.recovery = None;
            })?,
        }
        self.probe.ask_now();
        Ok(())
    }
}

/// Returns the seconds after which a segment is archived that is not full.
fn archive_timeout(cluster: &MemberCluster) -> Option<u32> {
    cluster.backup.as_ref().map(|backup| backup.wal.timeout_seconds)
}

fn observed_primary(observed: &Observed) -> bool {
    matches!(observed.server, Server::Primary { .. })
}
