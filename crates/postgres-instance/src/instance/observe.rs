//! What an instance sees.

use anyhow::Result;
use postgres_model::{
    in_force::InForce,
    instance::{ControlData, DataDirectory, Observed, Server},
    lsn::Lsn,
    timeline::{History, Position},
};

use super::{Instance, SHORT};
use crate::{
    clock::now,
    cluster::MemberCluster,
    control_data::{self, ControlFile, newest_history},
    session::Answer,
};

impl Instance {
    pub(super) async fn observe(&mut self, cluster: Option<&MemberCluster>) -> Result<Observed> {
        self.probe.set_server(self.server.started());
        let has_run = self.server.started().is_some_and(|started| now().saturating_sub(started) >= SHORT);
        if has_run && self.answer().is_some() {
            self.retry.succeeded();
        }
        let responsive = self.probe.is_responsive();
        let server = self.server.observe(responsive);
        self.observe_synchronous();
        let space = self.disk.observe(self.volume.root(), &self.volume.data(), now());
        let data = self.data(&server).await?;
        Ok(Observed {
            now: now(),
            member: self.member.clone(),
            volume_uid: cluster.map_or_else(String::new, |cluster| cluster.volume_uid.clone()),
            cluster: cluster.map(|cluster| cluster.view.clone()),
            lease: self.election.view(),
            volume: self.volume.state().clone(),
            space,
            data,
            server,
            failed_starts: self.retry.failures(),
            task: self.task.as_ref().map(|running| running.task),
            recovered: self.has_recovered(),
            versions: self.versions()?,
            seal_requested: *self.seals.borrow_and_update(),
        })
    }

    /// Returns whether PostgreSQL has replayed the WAL up to the end of the recovery. A sealed member had
    /// done so before.
    fn has_recovered(&self) -> bool {
        let (state, answer) = (self.volume.state(), self.answer());
        let (Some(recovery), Some(answer)) = (state.recovery, answer) else { return false };
        let has_all = self.archiving.has_reached_end() || state.sealed_epoch.is_some();
        answer.in_recovery && (answer.paused || (recovery.end.is_some() && has_all && answer.at_end))
    }

    /// Observes which standbys commits of a primary wait for.
    fn observe_synchronous(&mut self) {
        let Some(answer) = self.answer() else { return };
        let started = self.server.started();
        if self.in_force.0 != started || answer.in_recovery {
            self.in_force = (started, InForce::default());
        }
        if let (false, Some(flushed)) = (answer.in_recovery, answer.flushed) {
            let configuration = &self.server.dynamic().sync;
            let (asked, names) = (self.probe.asked(), &answer.standby_names);
            self.in_force.1.observe(asked, names, flushed, &answer.standbys, configuration);
        }
    }

    async fn data(&mut self, server: &Server) -> Result<DataDirectory> {
        if !self.volume.data().exists() {
            return Ok(DataDirectory::Missing);
        }
        let control = if let Some(control) = &self.control {
            control.clone()
        } else {
            let data = self.volume.data();
            control_data::read(self.programs_for(&data)?, &data).await?
        };
        self.control = Some(control.clone());
        if self.volume.state().system_identifier.is_none() {
            // The program ended after it had completed the data directory.
            self.volume.update(|state| state.system_identifier = Some(control.system_identifier))?;
        }
        let (history, end) = match server {
            Server::Down => self.stopped(&control)?,
            _ => self.running(&control)?,
        };
        let system_identifier = control.system_identifier;
        Ok(DataDirectory::Whole(ControlData { system_identifier, history, end }))
    }

    /// Returns the history and the end of the WAL of a server that is down.
    fn stopped(&self, control: &ControlFile) -> Result<(History, Option<Lsn>)> {
        let stop = self.volume.state().last_clean_stop.or(control.shutdown);
        let timeline = stop.map_or(control.timeline, |stop| stop.timeline);
        Ok((newest_history(&self.volume.data(), timeline)?, stop.map(|stop| stop.lsn)))
    }

    /// Returns the history and the end of the WAL of a server that runs.
    fn running(&self, control: &ControlFile) -> Result<(History, Option<Lsn>)> {
        let data = self.volume.data();
        let newest = newest_history(&data, self.volume.highest_timeline(control.timeline))?;
        let Some(answer) = self.answer() else {
            return Ok((newest_history(&data, control.timeline)?, None));
        };
        match wal_end(&answer, self.archiving.restored_until()) {
            Some(end) if answer.in_recovery => {
                Ok((newest.until(end), answer.at_end.then_some(answer.replayed).flatten()))
            }
            None if answer.in_recovery => Ok((newest_history(&data, control.timeline)?, None)),
            end => Ok((newest, end)),
        }
    }

    /// Returns where the WAL of a standby ends, if it has replayed all of it.
    pub(super) fn replayed_end(&self) -> Option<Position> {
        let answer = self.answer().filter(|answer| answer.at_end)?;
        let control = self.control.as_ref()?;
        let most = self.volume.highest_timeline(control.timeline);
        let lsn = answer.replayed?;
        let history = newest_history(&self.volume.data(), most).ok()?.until(lsn);
        Some(Position { timeline: history.timeline(), lsn })
    }
}

/// Returns the end of the WAL that a server has on disk. Returns `None` while a standby has not
/// replayed what an earlier run of it received, or what it restored from the archive up to
/// `restored`.
pub(super) fn wal_end(answer: &Answer, restored: Option<Lsn>) -> Option<Lsn> {
    if !answer.in_recovery {
        return answer.flushed;
    }
    let is_known = answer.at_end || answer.received.is_some_and(|received| Some(received) >= restored);
    answer.received.max(answer.replayed).filter(|_| is_known)
}
