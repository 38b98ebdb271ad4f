//! The archive that a member recovers from: that of another cluster, which is only read.

use std::{path::PathBuf, sync::Arc};

use anyhow::{Result, anyhow, bail};
use parking_lot::Mutex;
use postgres_archive::Archive;
use postgres_model::{
    lsn::Lsn,
    system_identifier::SystemIdentifier,
    timeline::History,
    wal_file::{SegmentSize, WalFileName},
};
use tokio::time::timeout;
use tracing::warn;

use super::{
    Archiving,
    connection::Connection,
    context::{Role, is_part_of},
    fetch::PATIENCE,
    protocol::Answer,
    settings::RecoverySettings,
};

/// The archive that a member recovers from.
#[derive(Clone)]
pub(crate) struct Source {
    connection: Arc<Connection>,
    state: Arc<Mutex<State>>,
}

/// What has been restored since the server started.
#[derive(Debug, Default)]
struct State {
    /// Whether PostgreSQL has asked for WAL after the end of the recovery: it has replayed all before.
    reached_end: bool,
    /// Why WAL could not be restored last.
    failure: Option<String>,
}

/// A recovery, as far as the archive needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recovery {
    pub(crate) settings: Arc<RecoverySettings>,
    /// History of the timeline to recover to.
    pub(crate) history: History,
    /// End of the last segment to restore, if PostgreSQL has no target.
    pub(crate) end: Option<Lsn>,
}

impl Recovery {
    fn is_beyond(&self, name: WalFileName, size: SegmentSize) -> bool {
        let WalFileName::Segment(segment) = name else { return false };
        self.end.is_some_and(|end| segment.start(size).is_none_or(|start| start >= end))
    }
}

impl Source {
    /// Returns an archive whose Secrets are mounted in a folder.
    pub(super) fn new(secrets: PathBuf) -> Self {
        Self { connection: Arc::new(Connection::new(secrets)), state: Arc::default() }
    }

    /// Connects to the archive. Without a system identifier, the source must have one database.
    ///
    /// # Errors
    /// Returns an error if the settings or the mounted Secrets cannot be used, or the store does not
    /// answer.
    pub(crate) async fn archive(&self, settings: &RecoverySettings) -> Result<Archive> {
        let system = match settings.system {
            Some(system) => system,
            None => self.only_database(settings).await?,
        };
        self.connection.source_backups(&settings.store, system).map_err(|failure| anyhow!(failure.message))
    }

    async fn only_database(&self, settings: &RecoverySettings) -> Result<SystemIdentifier> {
        let name = settings.store.server_name.as_deref().unwrap_or_default();
        let store = self.connection.source_backups(&settings.store, SystemIdentifier(0));
        let archive = store.map_err(|failure| anyhow!(failure.message))?;
        match archive.store().databases(&name.parse()?).await?.as_slice() {
            [] => bail!(
                "there is no archive of {name} in {}; check the url and the serverName in spec.bootstrap.recovery",
                settings.store.url
            ),
            [only] => Ok(*only),
            several => {
                let several: Vec<_> = several.iter().map(ToString::to_string).collect();
                bail!(
                    "the archive of {name} has the databases {}; set spec.bootstrap.recovery.source.systemID to one of them",
                    several.join(", ")
                )
            }
        }
    }

    /// Notes that the server starts.
    pub(super) fn server_starts(&self) {
        *self.state.lock() = State::default();
    }
}

impl Archiving {
    /// Returns the archive that this member recovers from.
    pub(crate) fn source(&self) -> Source {
        self.source.clone()
    }

    /// Returns whether PostgreSQL has replayed all WAL up to the end of the recovery.
    pub(crate) fn has_reached_end(&self) -> bool {
        self.source.state.lock().reached_end
    }

    /// Returns why the recovery waits for WAL.
    pub(crate) fn recovery_failure(&self) -> Option<String> {
        self.source.state.lock().failure.clone()
    }

    /// Restores a file for a recovery.
    pub(super) async fn recover(&self, recovery: &Recovery, name: WalFileName, file: &str) -> Answer {
        let size = self.size_of_segments();
        if recovery.is_beyond(name, size) {
            self.source.state.lock().reached_end = true;
            return Answer::Missing;
        }
        if !is_part_of(&recovery.history, name, size) {
            return Answer::Missing;
        }
        let system = self.context.borrow().system;
        let restored = timeout(PATIENCE, self.read_source(recovery, system, name, file)).await;
        let answer = restored.unwrap_or_else(|_| Answer::Failed(format!("{name} did not arrive in time")));
        let is_segment = matches!(name, WalFileName::Segment(_));
        let failure = match &answer {
            Answer::Failed(reason) => Some(reason.clone()),
            Answer::Missing if is_segment => Some(format!(
                "the archive ends before {name}, and the recovery has not reached its target; it goes on when the \
                 source has archived more; otherwise create the PostgresCluster again with an earlier target"
            )),
            Answer::Missing | Answer::Done => None,
        };
        let known = self.recovery_failure();
        // PostgreSQL asks twice a second for WAL that is missing.
        if let Some(reason) = failure.as_ref().filter(|_| failure != known) {
            warn!(%name, reason, "cannot restore a file for the recovery");
        }
        if is_segment {
            self.source.state.lock().failure = failure;
        }
        // A member that was sealed meanwhile gets nothing more.
        let is_current = matches!(&self.context.borrow().role, Role::Recovering(_));
        if is_current { answer } else { Answer::Missing }
    }

    async fn read_source(
        &self,
        recovery: &Recovery,
        system: Option<SystemIdentifier>,
        name: WalFileName,
        file: &str,
    ) -> Answer {
        let Some(system) = system else { return Answer::Missing };
        let archive = match self.source.connection.source(&recovery.settings.store, system).await {
            Ok(archive) => archive,
            Err(failure) => return Answer::Failed(failure.message),
        };
        self.restore_from(&archive, name, file).await
    }
}
