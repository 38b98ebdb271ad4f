//! What an instance reports.

use postgres_model::{
    instance::{DataDirectory, Observed, Plan, Problem, Server},
    lsn::Lsn,
    report::{InstanceReport, InstanceState, RecoveryReport, WalPositions},
    space::Space,
    timeline::Position,
};

use super::{Instance, observe::wal_end};
use crate::{archive::RunningBackup, session::Answer};

/// Free bytes are reported in parts of the volume, so that not every row is a change.
const FREE_PARTS: u64 = 128;

impl Instance {
    /// Publishes the report, and whether the member is ready.
    pub(super) fn report(&mut self, plan: &Plan, observed: &Observed) {
        let answer = self.answer();
        self.report_readiness(plan, observed, answer.as_ref());
        let control = match &observed.data {
            DataDirectory::Whole(control) => Some(control),
            DataDirectory::Missing => None,
        };
        let is_primary = answer.as_ref().is_some_and(|answer| !answer.in_recovery);
        // A promotion is complete when its timeline is on the volume.
        let state = match plan.state {
            InstanceState::Primary if !is_primary => InstanceState::Promoting,
            state => state,
        };
        self.status.publish(InstanceReport {
            member: self.member.clone(),
            pod_uid: self.pod_uid.clone(),
            sequence: 0,
            state,
            system_identifier: control.map(|control| control.system_identifier),
            timeline: control.map(|control| control.history.timeline()),
            highest_timeline: self.volume.state().highest_timeline(),
            is_empty: self.is_empty(observed),
            history: control.filter(|_| is_primary).map(|control| control.history.to_string()),
            problem: plan.problem.map(|problem| problem.to_string()),
            positions: answer.as_ref().map_or_else(WalPositions::default, |answer| {
                positions(answer, self.archiving.restored_until())
            }),
            sealed_epoch: self.volume.state().sealed_epoch,
            server_version: answer.as_ref().map(|answer| answer.version.clone()),
            pending_restart: answer.as_ref().is_some_and(|answer| answer.pending_restart),
            parameters: self.parameters.settle(self.probe.asked()),
            refused_parameters: self.parameters.refusal().map(str::to_owned),
            databases: self.declared.report_of(self.server.started()).filter(|_| is_primary),
            slots: self.slots.present(self.server.started()),
            synchronous_standby_names: self.in_force.1.value().filter(|_| is_primary).map(str::to_owned),
            standbys: answer.map_or_else(Vec::new, |answer| answer.standbys),
            fencing: observed.cluster.as_ref().is_none_or(|view| view.fencing),
            manager_version: env!("CARGO_PKG_VERSION").to_owned(),
            last_clean_stop: self.clean_stop(&observed.server),
            free_bytes: free_bytes(&observed.space),
            total_bytes: observed.space.total,
            disk_full: is_full(plan, observed),
            archive: self.archiving.report(),
            recovery: self.recovery_report(observed),
            upgrade: self.upgrade_report(plan, observed),
            backup: self.backup.as_ref().map(RunningBackup::report),
        });
    }

    /// Returns whether the volume never had a database. One that is being created may soon have one.
    fn is_empty(&self, observed: &Observed) -> bool {
        let had_data = self.volume.state().system_identifier.is_some();
        observed.data == DataDirectory::Missing && !had_data && observed.task.is_none()
    }

    /// Returns what the member reports about its recovery, until it is promoted.
    fn recovery_report(&self, observed: &Observed) -> Option<RecoveryReport> {
        let replays = self.volume.state().recovery.is_some() && observed.data != DataDirectory::Missing;
        let restores = observed.data == DataDirectory::Missing
            && observed
                .cluster
                .as_ref()
                .is_some_and(|view| view.recovers && view.create_on.as_ref() == Some(&observed.volume_uid));
        let failure = self.archiving.recovery_failure().filter(|_| !observed.recovered);
        (replays || restores).then(|| self.recovery.report(replays, failure))
    }

    fn clean_stop(&self, server: &Server) -> Option<Position> {
        let control = self.control.as_ref().filter(|_| *server == Server::Down)?;
        self.volume.state().last_clean_stop.or(control.shutdown)
    }

    fn report_readiness(&self, plan: &Plan, observed: &Observed, answer: Option<&Answer>) {
        let reason = match (&observed.server, answer) {
            (Server::Primary { responsive: true }, Some(answer)) if !answer.in_recovery => {
                let started = self.server.started();
                let is_new = !self.roles.were_attempted(started);
                is_new.then(|| "the roles of the primary are being prepared".to_owned())
            }
            (Server::Standby { upstream: Some(_) }, Some(answer)) if answer.has_receiver => None,
            (Server::Standby { .. }, Some(_)) => Some("the standby receives no WAL".to_owned()),
            (Server::Primary { .. } | Server::Standby { .. }, None) => {
                Some("PostgreSQL does not answer yet".to_owned())
            }
            _ => Some(plan.problem.map_or_else(
                || format!("PostgreSQL does not run; the instance is in the state {:?}", plan.state),
                |problem| problem.to_string(),
            )),
        };
        match reason {
            None => self.health.set_ready(),
            Some(reason) => self.health.set_unready(reason),
        }
    }
}

/// Returns whether the member waits for space. A copy that fills the volume may still succeed.
fn is_full(plan: &Plan, observed: &Observed) -> bool {
    let is_full = observed.space.is_full() && observed.task.is_none();
    is_full || plan.problem.is_some_and(Problem::is_space)
}

fn free_bytes(space: &Space) -> u64 {
    let unit = (space.total / FREE_PARTS).max(1);
    space.free / unit * unit
}

fn positions(answer: &Answer, restored: Option<Lsn>) -> WalPositions {
    let standby = |lsn: Option<Lsn>| lsn.filter(|_| answer.in_recovery);
    WalPositions {
        flushed: answer.flushed,
        received: standby(wal_end(answer, restored)),
        replayed: standby(answer.replayed),
    }
}
