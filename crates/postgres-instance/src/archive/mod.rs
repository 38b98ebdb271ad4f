//! The archive: what PostgreSQL asks the first process to archive and to restore.
//!
//! ```text
//!   archive_command ─┐              ┌─▶ push      the primary writes; a standby waits for it
//!                    ├─ socket ─────┤
//!   restore_command ─┘              └─▶ fetch     a standby that follows a confirmed primary reads
//!   main loop ──── context ────────────▶ keeper   claims the archive, and sends the histories
//! ```
//!
//! # Guarantees
//! - A file counts as archived only when the store has it. Nothing is overwritten.
//! - Only a primary writes. A standby keeps each segment until the primary has archived it, so that a
//!   standby that is promoted archives what the former primary could not.
//! - A member that is sealed, promoted, or without a primary restores nothing. What was restored
//!   before counts for its position: see [`Archiving::restored_until`].
//! - PostgreSQL runs on without the store.

mod ahead;
mod backup;
mod backup_end;
mod base;
pub(crate) mod client;
mod connection;
mod context;
mod failure;
mod fetch;
mod file_list;
mod keeper;
mod label;
mod protocol;
mod push;
mod retention;
mod segments;
mod settings;
mod socket;
mod source;
mod state;
mod tar;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use postgres_model::{instance::Moment, lsn::Lsn, report::ArchiveReport, timeline::TimelineId};
use tokio::sync::watch;

use self::{ahead::Ahead, connection::Connection, fetch::Outage, state::State};
pub(crate) use self::{
    backup::{BackupTools, RunningBackup},
    context::{Context, Role},
    settings::{BackupSettings, RecoverySettings, StoreSettings},
    source::{Recovery, Source},
    state::State as ArchiveState,
};
use crate::{clock::now, wal_commands::SOCKET};

/// The archive of a member.
pub(crate) struct Archiving {
    context: watch::Sender<Context>,
    state: watch::Sender<State>,
    connection: Connection,
    source: Source,
    ahead: Ahead,
    outage: Mutex<Outage>,
    restored_until: Mutex<Option<Lsn>>,
    /// `pg_wal`.
    wal: PathBuf,
}

impl Archiving {
    /// Starts to answer requests. `data` is the data directory, `sockets` the folder of sockets,
    /// `secrets` the folder with the credentials, and `source_secrets` that for the archive to recover from.
    ///
    /// # Errors
    /// Returns the error of the socket.
    pub(crate) fn start(
        data: &Path,
        sockets: &Path,
        secrets: PathBuf,
        source_secrets: PathBuf,
    ) -> io::Result<Arc<Self>> {
        let listener = socket::listen(&sockets.join(SOCKET))?;
        let archiving = Arc::new(Self {
            context: watch::Sender::default(),
            state: watch::Sender::default(),
            connection: Connection::new(secrets),
            source: Source::new(source_secrets),
            ahead: Ahead::default(),
            outage: Mutex::default(),
            restored_until: Mutex::default(),
            wal: data.join("pg_wal"),
        });
        tokio::spawn(socket::serve(listener, archiving.clone()));
        tokio::spawn(keeper::run(archiving.clone()));
        tokio::spawn(retention::run(archiving.clone()));
        Ok(archiving)
    }

    /// Sets what decides about the archive.
    pub(crate) fn set_context(&self, context: Context) {
        self.context.send_if_modified(|present| {
            let is_new = *present != context;
            if present.settings != context.settings || present.system != context.system {
                self.ahead.clear();
            }
            *present = context;
            is_new
        });
    }

    /// Lets the member read and write nothing from now on.
    ///
    /// No request succeeds afterwards that began before.
    pub(crate) fn wait(&self) {
        self.context.send_modify(|context| context.role = Role::Waiting);
    }

    /// Lets `pg_rewind`, which is about to start, read WAL up to this timeline.
    pub(crate) fn rewind(&self, most: TimelineId) {
        self.context.send_modify(|context| context.role = Role::Rewinding(most));
    }

    /// Notes that PostgreSQL stops: what is ready is archived for a short time only.
    pub(crate) fn stop(&self) {
        self.context.send_if_modified(|context| {
            let is_new = context.stopping.is_none();
            context.stopping.get_or_insert_with(now);
            is_new
        });
    }

    /// Returns the end of the last segment that was restored since the server started.
    ///
    /// While it is beyond what was received by streaming, PostgreSQL may not have replayed all that it
    /// has, and its position is not known.
    pub(crate) fn restored_until(&self) -> Option<Lsn> {
        *self.restored_until.lock()
    }

    /// Notes that the server starts.
    pub(crate) fn server_starts(&self) {
        *self.restored_until.lock() = None;
        self.source.server_starts();
    }

    /// Returns when PostgreSQL was asked to stop, if it has not ended since.
    pub(crate) fn stopping(&self) -> Option<Moment> {
        self.context.borrow().stopping
    }

    /// Returns what a primary reports. `None`: this member does not archive.
    pub(crate) fn report(&self) -> Option<ArchiveReport> {
        let context = self.context.borrow();
        let archives = context.settings.is_some() && matches!(context.role, Role::Primary(_));
        archives.then(|| self.state.borrow().report.clone())
    }

    /// Returns a receiver of changes of the report.
    pub(crate) fn changes(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }
}
