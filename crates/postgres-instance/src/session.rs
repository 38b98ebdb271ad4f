//! What a running PostgreSQL says about itself.

use std::{path::Path, pin::pin, time::Duration};

use futures::TryStreamExt as _;
use postgres_model::{
    lsn::Lsn,
    metrics::MONITOR,
    report::{StandbyReport, SyncState, WalSenderState},
};
use postgres_protocol::{
    escape::{escape_identifier, escape_literal},
    password::scram_sha_256,
};
use tokio::time::timeout;
use tokio_postgres::{Client, NoTls, Row, error::SqlState, types::ToSql};

use crate::configuration::{Application, MAINTENANCE, PORT, SUPERUSER};

/// How long a short statement may take.
pub(crate) const QUERY: Duration = Duration::from_secs(5);
/// How long the creation of a database may take. PostgreSQL 14 writes two checkpoints for it.
pub(crate) const DATABASE: Duration = Duration::from_mins(5);
/// Option of a session whose commits wait for no standby.
const LOCAL: &str = "-c synchronous_commit=local";
/// `pg_stat_activity.wait_event` of a startup process that has replayed all WAL it has.
const WAITS_FOR_WAL: [&str; 2] = ["RecoveryWalStream", "RecoveryRetrieveRetryInterval"];

/// What PostgreSQL answered last.
#[allow(clippy::struct_excessive_bools, reason = "each is an answer of its own")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Whether it is a standby.
    pub(crate) in_recovery: bool,
    /// `pg_current_wal_flush_lsn` of a primary.
    pub(crate) flushed: Option<Lsn>,
    /// `pg_last_wal_receive_lsn` of a standby.
    pub(crate) received: Option<Lsn>,
    /// `pg_last_wal_replay_lsn` of a standby.
    pub(crate) replayed: Option<Lsn>,
    /// Whether a WAL receiver runs.
    pub(crate) has_receiver: bool,
    /// Whether a standby without a receiver has replayed all WAL it has.
    pub(crate) at_end: bool,
    /// Whether a standby has paused its recovery.
    pub(crate) paused: bool,
    /// `server_version`.
    pub(crate) version: String,
    /// Whether a parameter waits for a restart.
    pub(crate) pending_restart: bool,
    /// `synchronous_standby_names`.
    pub(crate) standby_names: String,
    /// `pg_stat_replication`.
    pub(crate) standbys: Vec<StandbyReport>,
}

/// Error of a query.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    /// PostgreSQL refused the connection or the query.
    #[error("PostgreSQL refused the {action}: {}", message(.error))]
    Refused {
        /// What was attempted.
        action: &'static str,
        /// Why. Part of the message, so it is no source.
        error: tokio_postgres::Error,
    },
    /// It did not answer.
    #[error("PostgreSQL did not answer the {action} within {} s", .after.as_secs())]
    Timeout {
        /// What was attempted.
        action: &'static str,
        /// After which time.
        after: Duration,
    },
    /// The answer has another form.
    #[error("PostgreSQL answered the {0} with another form than expected")]
    Form(&'static str),
}

/// Returns the message of the server, which the display of the error leaves out.
fn message(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
}

/// Whether a role can log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Login {
    /// It can.
    Accepted,
    /// The role or the database does not exist, or the password is another one.
    Refused,
}

/// A connection by the Unix socket, as the superuser.
pub(crate) struct Session {
    client: Client,
}

impl Session {
    /// Connects to the server.
    ///
    /// # Errors
    /// Returns an error while it starts or stops, or if it does not answer.
    pub(crate) async fn connect(socket: &Path) -> Result<Self, SessionError> {
        // A primary without its standbys must still be able to create the roles that they need.
        Self::connect_as(SUPERUSER, socket, MAINTENANCE, LOCAL).await
    }

    /// Connects to a database of users, to change objects that they declare. Without a name, connects to
    /// the one that each server has.
    ///
    /// The owner of a database can set parameters for it, which must not affect what the superuser does.
    ///
    /// # Errors
    /// Returns an error while the server starts or stops, or if it does not answer or has no such database.
    pub(crate) async fn connect_to_change(
        socket: &Path,
        database: Option<&str>,
    ) -> Result<Self, SessionError> {
        let limit = DATABASE.as_millis();
        let options = format!(
            "{LOCAL} -c default_transaction_read_only=off -c search_path=public -c statement_timeout={limit}"
        );
        Self::connect_as(SUPERUSER, socket, database.unwrap_or(MAINTENANCE), &options).await
    }

    /// Connects to the server to read. PostgreSQL gives up a query after `limit`.
    ///
    /// # Errors
    /// Returns an error while it starts or stops, or if it does not answer.
    pub(crate) async fn connect_to_read(socket: &Path, limit: Duration) -> Result<Self, SessionError> {
        Self::connect_as(SUPERUSER, socket, MAINTENANCE, &read_only(limit)).await
    }

    /// Connects to a database of users to run a query of theirs, as a role that is no superuser. PostgreSQL
    /// gives up a query after `limit`.
    ///
    /// # Errors
    /// Returns an error while the server starts or stops, or if it does not answer or has no such database.
    pub(crate) async fn connect_to_monitor(
        socket: &Path,
        database: &str,
        limit: Duration,
    ) -> Result<Self, SessionError> {
        Self::connect_as(MONITOR, socket, database, &read_only(limit)).await
    }

    async fn connect_as(
        user: &str,
        socket: &Path,
        database: &str,
        options: &str,
    ) -> Result<Self, SessionError> {
        let mut config = tokio_postgres::Config::new();
        config.host_path(socket).port(PORT).user(user).dbname(database).options(options);
        config.application_name("ensemble-instance").connect_timeout(QUERY);
        let connecting = within("connection", QUERY, config.connect(NoTls));
        let (client, connection) = connecting.await?;
        tokio::spawn(connection);
        Ok(Self { client })
    }

    /// Asks for the state of the server.
    ///
    /// # Errors
    /// Returns an error if the server does not answer in time.
    pub(crate) async fn ask(&self) -> Result<Answer, SessionError> {
        const ACTION: &str = "query for its state";
        let row = within(ACTION, QUERY, self.client.query_one(STATE, &[])).await?;
        let text = |column: &str| -> Option<String> { row.try_get(column).ok().flatten() };
        let lsn = |column: &str| text(column).and_then(|text| text.parse().ok());
        let flag = |column: &str| row.try_get::<_, bool>(column).map_err(|_| SessionError::Form(ACTION));
        let (in_recovery, has_receiver) = (flag("in_recovery")?, flag("has_receiver")?);
        let waits = text("startup_wait").is_some_and(|event| WAITS_FOR_WAL.contains(&event.as_str()));
        Ok(Answer {
            in_recovery,
            flushed: lsn("flushed"),
            received: lsn("received"),
            replayed: lsn("replayed"),
            has_receiver,
            at_end: in_recovery && !has_receiver && waits,
            paused: flag("paused")?,
            version: text("version").unwrap_or_default(),
            pending_restart: flag("pending_restart")?,
            standby_names: text("standby_names").unwrap_or_default(),
            standbys: if in_recovery { Vec::new() } else { self.standbys().await? },
        })
    }

    async fn standbys(&self) -> Result<Vec<StandbyReport>, SessionError> {
        let rows = within("query for its standbys", QUERY, self.client.query(STANDBYS, &[])).await?;
        let text = |row: &Row, column: &str| -> String {
            row.try_get::<_, Option<String>>(column).ok().flatten().unwrap_or_default()
        };
        let standby = |row: &Row| StandbyReport {
            name: text(row, "name"),
            state: parsed(&text(row, "state"), WalSenderState::Unknown),
            sync_state: parsed(&text(row, "sync_state"), SyncState::Unknown),
            flushed: text(row, "flushed").parse().ok(),
        };
        Ok(rows.iter().map(standby).collect())
    }

    /// Promotes the standby, and returns the timeline that it is on then.
    ///
    /// # Errors
    /// Returns an error if it was not promoted within `limit`.
    pub(crate) async fn promote(&self, limit: Duration) -> Result<u32, SessionError> {
        const ACTION: &str = "promotion";
        let promoted = within(ACTION, limit, self.client.query_one("SELECT pg_promote(true, 3600)", &[]));
        if !promoted.await?.try_get::<_, bool>(0).is_ok_and(|promoted| promoted) {
            return Err(SessionError::Timeout { action: ACTION, after: limit });
        }
        self.checkpoint(limit).await?;
        let row = within(ACTION, QUERY, self.client.query_one(TIMELINE, &[])).await?;
        let timeline: i32 = row.try_get(0).map_err(|_| SessionError::Form(ACTION))?;
        u32::try_from(timeline).map_err(|_| SessionError::Form(ACTION))
    }

    /// Returns the position that a standby has replayed. Returns `None` on a primary.
    ///
    /// # Errors
    /// Returns an error if the server does not answer in time.
    pub(crate) async fn replayed(&self) -> Result<Option<Lsn>, SessionError> {
        let answer = self.ask().await?;
        Ok(answer.replayed.filter(|_| answer.in_recovery))
    }

    /// Returns whether a base backup of this machine waits until its last segment is archived.
    ///
    /// # Errors
    /// Returns an error if the server does not answer in time.
    pub(crate) async fn backup_waits(&self) -> Result<bool, SessionError> {
        const ACTION: &str = "query for the progress of a backup";
        let row = within(ACTION, QUERY, self.client.query_one(BACKUP_WAITS, &[])).await?;
        row.try_get(0).map_err(|_| SessionError::Form(ACTION))
    }

    /// Begins another WAL file, if the present one is still this. The present one can then be archived.
    ///
    /// # Errors
    /// Returns an error if the server does not answer in time, or is a standby.
    pub(crate) async fn switch_wal(&self, file: &str) -> Result<(), SessionError> {
        let parameters: [&(dyn ToSql + Sync); 1] = [&file];
        let switched = self.client.execute(SWITCH_WAL, &parameters);
        within("switch of the WAL file", QUERY, switched).await.map(drop)
    }

    /// Returns the rows of a query.
    ///
    /// # Errors
    /// Returns an error if the server did not answer within `limit`.
    pub(crate) async fn rows(
        &self,
        action: &'static str,
        limit: Duration,
        query: &str,
    ) -> Result<Vec<Row>, SessionError> {
        within(action, limit, self.client.query(query, &[])).await
    }

    /// Passes on each row of a query as it arrives. PostgreSQL waits meanwhile, so that the rows need not fit
    /// into memory.
    ///
    /// # Errors
    /// Returns an error if PostgreSQL refuses the query or has not sent all rows within `limit`, or the
    /// first error of `take`.
    pub(crate) async fn each_row(
        &self,
        action: &'static str,
        limit: Duration,
        query: &str,
        mut take: impl FnMut(&Row) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let refused = |error| SessionError::Refused { action, error };
        let read = async {
            let mut rows = pin!(self.client.query_raw(query, [""; 0]).await.map_err(refused)?);
            while let Some(row) = rows.try_next().await.map_err(refused)? {
                take(&row)?;
            }
            Ok(())
        };
        timeout(limit, read)
            .await
            .unwrap_or_else(|_| Err(SessionError::Timeout { action, after: limit }.into()))
    }

    /// Writes a checkpoint, so that `pg_rewind` finds the timeline in the control file.
    ///
    /// # Errors
    /// Returns an error if it was not complete within `limit`.
    pub(crate) async fn checkpoint(&self, limit: Duration) -> Result<(), SessionError> {
        within("checkpoint", limit, self.client.batch_execute("CHECKPOINT")).await
    }

    /// Executes a statement.
    ///
    /// # Errors
    /// Returns an error if PostgreSQL refuses it, or did not answer within `limit`.
    pub(crate) async fn execute(
        &self,
        action: &'static str,
        limit: Duration,
        statement: &str,
    ) -> Result<(), SessionError> {
        within(action, limit, self.client.batch_execute(statement)).await
    }

    /// Attempts to log in as a role with a password.
    ///
    /// # Errors
    /// Returns an error if the server does not answer, or refuses for a reason that has nothing to do
    /// with the role.
    pub(crate) async fn log_in(
        socket: &Path,
        database: &str,
        role: &str,
        password: &str,
    ) -> Result<Login, SessionError> {
        let mut config = tokio_postgres::Config::new();
        config.host_path(socket).port(PORT).user(role).dbname(database);
        config.application_name("ensemble-instance").connect_timeout(QUERY).password(password);
        match within("login of a role", QUERY, config.connect(NoTls)).await {
            Ok(_) => Ok(Login::Accepted),
            Err(SessionError::Refused { error, .. }) if error.code().is_some_and(is_unknown) => {
                Ok(Login::Refused)
            }
            Err(SessionError::Refused { error, .. }) if error.code().is_some_and(is_beyond) => {
                Ok(Login::Accepted)
            }
            Err(error) => Err(error),
        }
    }

    /// Creates the role and the database of the application, and sets the password.
    ///
    /// The server gets a verifier, so that it cannot log the password. Nothing waits for standbys:
    /// what the application commits later waits for this as well, as WAL is replicated in order.
    ///
    /// # Errors
    /// Returns an error if PostgreSQL refuses a statement.
    pub(crate) async fn create_application(
        &self,
        application: &Application,
        password: &str,
    ) -> Result<(), SessionError> {
        const ROLE: &str = "creation of the application's role";
        const CREATION: &str = "creation of the application's database";
        let (owner, database) = (&application.owner, &application.database);
        let exists = "SELECT FROM pg_roles WHERE rolname = $1";
        let exists = within(ROLE, QUERY, self.client.query_opt(exists, &[owner])).await?.is_some();
        let (action, role) = (if exists { "ALTER" } else { "CREATE" }, escape_identifier(owner));
        let verifier = escape_literal(&scram_sha_256(password.as_bytes()));
        let statement = format!("{action} ROLE {role} WITH LOGIN PASSWORD {verifier}");
        within(ROLE, QUERY, self.client.batch_execute(&statement)).await?;
        let exists = "SELECT FROM pg_database WHERE datname = $1";
        if within(CREATION, QUERY, self.client.query_opt(exists, &[database])).await?.is_none() {
            let statement = format!("CREATE DATABASE {} OWNER {role}", escape_identifier(database));
            within(CREATION, DATABASE, self.client.batch_execute(&statement)).await?;
        }
        Ok(())
    }

    /// Creates the roles of the members and of the queries for metrics.
    ///
    /// # Errors
    /// Returns an error if the role cannot be created.
    pub(crate) async fn create_roles(&self) -> Result<(), SessionError> {
        within("creation of the roles of the instance", QUERY, self.client.batch_execute(ROLES)).await
    }
}

/// Returns the options of a session that only reads.
fn read_only(limit: Duration) -> String {
    format!("-c statement_timeout={} -c default_transaction_read_only=on", limit.as_millis())
}

/// Returns whether a login failed because of the role, its password, or the database.
fn is_unknown(code: &SqlState) -> bool {
    [
        SqlState::INVALID_PASSWORD,
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
        SqlState::INVALID_CATALOG_NAME,
    ]
    .contains(code)
}

/// Returns whether a login failed after the server had accepted the password: all connections that the role
/// may have are in use, or it may not use the database.
fn is_beyond(code: &SqlState) -> bool {
    [SqlState::TOO_MANY_CONNECTIONS, SqlState::INSUFFICIENT_PRIVILEGE].contains(code)
}

async fn within<T>(
    action: &'static str,
    limit: Duration,
    answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, SessionError> {
    match timeout(limit, answer).await {
        Ok(result) => result.map_err(|error| SessionError::Refused { action, error }),
        Err(_) => Err(SessionError::Timeout { action, after: limit }),
    }
}

fn parsed<T: serde::de::DeserializeOwned>(text: &str, otherwise: T) -> T {
    serde_json::from_value(text.into()).unwrap_or(otherwise)
}

const STATE: &str = "\
SELECT pg_is_in_recovery() AS in_recovery,
       CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_flush_lsn()::text END AS flushed,
       pg_last_wal_receive_lsn()::text AS received,
       pg_last_wal_replay_lsn()::text AS replayed,
       EXISTS (SELECT FROM pg_stat_wal_receiver) AS has_receiver,
       (SELECT wait_event FROM pg_stat_activity WHERE backend_type = 'startup') AS startup_wait,
       CASE WHEN pg_is_in_recovery() THEN pg_get_wal_replay_pause_state() = 'paused' ELSE false END AS paused,
       current_setting('server_version') AS version,
       current_setting('synchronous_standby_names') AS standby_names,
       EXISTS (SELECT FROM pg_settings WHERE pending_restart) AS pending_restart";

const STANDBYS: &str = "\
SELECT left(application_name, 63) AS name, state, sync_state, flush_lsn::text AS flushed
FROM pg_stat_replication ORDER BY application_name LIMIT 64";

const BACKUP_WAITS: &str = "\
SELECT EXISTS (
  SELECT FROM pg_stat_progress_basebackup JOIN pg_stat_activity USING (pid)
  WHERE client_addr IS NULL AND phase = 'waiting for wal archiving to finish')";

const SWITCH_WAL: &str = "SELECT pg_switch_wal() WHERE pg_walfile_name(pg_current_wal_insert_lsn()) = $1";

const TIMELINE: &str = "SELECT timeline_id FROM pg_control_checkpoint()";

/// The granted rights are those that `pg_rewind` needs on its source.
const ROLES: &str = "\
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'streaming_replica') THEN
    CREATE ROLE streaming_replica WITH LOGIN REPLICATION;
  END IF;
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'ensemble_monitor') THEN
    CREATE ROLE ensemble_monitor WITH LOGIN IN ROLE pg_monitor;
  END IF;
END $$;
GRANT EXECUTE ON FUNCTION pg_ls_dir(text, boolean, boolean) TO streaming_replica;
GRANT EXECUTE ON FUNCTION pg_stat_file(text, boolean) TO streaming_replica;
GRANT EXECUTE ON FUNCTION pg_read_binary_file(text) TO streaming_replica;
GRANT EXECUTE ON FUNCTION pg_read_binary_file(text, bigint, bigint, boolean) TO streaming_replica;";
