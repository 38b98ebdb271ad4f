//! What the archive may do, by what this member is.

use postgres_model::instance::{DataDirectory, Observed, Server, Task};
use tracing::warn;

use super::Instance;
use crate::{
    archive::{BackupTools, Context, Recovery, Role, RunningBackup},
    clock::now,
    cluster::MemberCluster,
    control_data::newest_history,
    session::Session,
};

impl Instance {
    /// Tells the archive what this member is.
    ///
    /// Only the server that runs read-write archives: it holds the Lease, or the fence ends it.
    pub(super) fn set_archive_context(&mut self, observed: &Observed, cluster: Option<&MemberCluster>) {
        let Some(cluster) = cluster else { return };
        let is_stopping = matches!(observed.server, Server::Stopping { .. });
        let since = self.archiving.stopping();
        self.archiving.set_context(Context {
            settings: cluster.backup.clone(),
            cluster: cluster.name.clone(),
            cluster_uid: cluster.uid.clone(),
            system: observed.volume.system_identifier,
            role: self.recovery_role(observed, cluster).unwrap_or_else(|| self.archive_role(observed)),
            stopping: is_stopping.then(|| since.unwrap_or_else(now)),
            last_backup: cluster.last_backup.clone(),
        });
    }

    /// Starts a backup that is asked for, and gives up one that would disturb a promotion.
    pub(super) fn consider_backup(&mut self) {
        let request = self.backup_requests.borrow_and_update().clone();
        let is_primary = self.server.is_primary();
        if let Some(backup) = self.backup.as_mut().filter(|_| is_primary) {
            backup.note_primary();
        }
        let is_busy = |backup: &RunningBackup, uid: &str| backup.runs() || backup.is_of(uid);
        let is_running = self.answer().is_some() && !self.is_stopping();
        let Some(request) = request.filter(|_| is_running) else { return };
        if !self.backup.as_ref().is_some_and(|backup| is_busy(backup, &request.uid)) {
            let tools = BackupTools {
                archiving: self.archiving.clone(),
                programs: self.server.programs.clone(),
                socket: self.socket.clone(),
                member: self.member.clone(),
            };
            self.backup = Some(RunningBackup::start(tools, request));
        }
    }

    /// Begins another WAL file, if a backup waits for the present one.
    pub(super) fn switch_wal(&mut self) {
        let file = self.switch_requests.borrow_and_update().clone();
        let is_primary = self.answer().is_some_and(|answer| !answer.in_recovery);
        if let Some(file) = file.filter(|_| is_primary) {
            let socket = self.socket.clone();
            tokio::spawn(async move {
                let switched = async { Session::connect(&socket).await?.switch_wal(&file).await };
                if let Err(error) = switched.await {
                    warn!(file, %error, "cannot begin another WAL file");
                }
            });
        }
    }

    /// Returns the role of a member that recovers. A sealed one has all WAL that it needs.
    fn recovery_role(&self, observed: &Observed, cluster: &MemberCluster) -> Option<Role> {
        let recovery = observed.volume.recovery.filter(|_| !self.server.is_primary())?;
        let settings = cluster.recovery.clone().filter(|_| observed.volume.sealed_epoch.is_none());
        let history = newest_history(&self.volume.data(), recovery.timeline).ok();
        let history = history.filter(|history| history.timeline() == recovery.timeline);
        Some(match (settings, history) {
            (Some(settings), Some(history)) => {
                Role::Recovering(Recovery { settings, history, end: recovery.end })
            }
            _ => Role::Waiting,
        })
    }

    fn archive_role(&self, observed: &Observed) -> Role {
        let view = observed.cluster.as_ref();
        let control = match &observed.data {
            DataDirectory::Whole(control) => Some(control),
            DataDirectory::Missing => None,
        };
        match (&observed.server, observed.task) {
            (Server::Down, Some(Task::Rewind)) => {
                view.map_or(Role::Waiting, |view| Role::Rewinding(view.timeline))
            }
            (Server::Down, _) => Role::Waiting,
            _ if self.server.is_primary() => {
                control.map_or(Role::Waiting, |control| Role::Primary(control.history.clone()))
            }
            (Server::Standby { upstream: Some(upstream) }, _) => {
                let view = view.filter(|view| view.confirmed_primary() == Some(upstream));
                let history = view.and_then(|view| view.primary_history.clone());
                history.map_or(Role::Waiting, Role::Follower)
            }
            _ => Role::Waiting,
        }
    }
}
