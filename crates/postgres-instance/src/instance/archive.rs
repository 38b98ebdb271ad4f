//! What the archive may do, by what this member is.

use postgres_model::instance::{DataDirectory, Observed, Server, Task};

use super::Instance;
use crate::{
    archive::{Context, Role},
    clock::now,
    cluster::MemberCluster,
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
            role: self.archive_role(observed),
            stopping: is_stopping.then(|| since.unwrap_or_else(now)),
            last_backup: cluster.last_backup.clone(),
        });
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
