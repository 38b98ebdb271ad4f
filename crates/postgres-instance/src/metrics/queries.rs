//! What a scrape asks PostgreSQL: one query, whose rows are samples.

use std::path::Path;

use postgres_model::metrics::{
    ARCHIVE_FAILURES, ARCHIVE_LAST_SUCCESS, ARCHIVE_READY, CHECKPOINTS, CONNECTIONS, MAX_CONNECTIONS, Metric,
    REPLAY_LAG_BYTES, REPLAY_LAG_SECONDS, SLOT_WAL, STANDBY_LAG, TRANSACTIONS, XID_AGE,
};
use tokio_postgres::Row;
use tracing::debug;

use super::{QUERY, Sample};
use crate::session::{Session, SessionError};

const ACTION: &str = "query for metrics";
/// First version with a view for the checkpointer.
const CHECKPOINTER: i32 = 170_000;

/// Returns the value of the label and the value of each sample. Samples without a value are left out.
const PARTS: [(&Metric, &str); 11] = [
    (
        &CONNECTIONS,
        "SELECT coalesce(state, 'unknown'), count(*)::float8 FROM pg_stat_activity \
         WHERE backend_type = 'client backend' GROUP BY 1",
    ),
    (&MAX_CONNECTIONS, "SELECT '', current_setting('max_connections')::float8"),
    (
        &TRANSACTIONS,
        "SELECT 'commit', sum(xact_commit)::float8 FROM pg_stat_database \
         UNION ALL SELECT 'rollback', sum(xact_rollback)::float8 FROM pg_stat_database",
    ),
    (&XID_AGE, "SELECT '', max(age(datfrozenxid))::float8 FROM pg_database"),
    (
        &REPLAY_LAG_BYTES,
        "SELECT '', greatest(pg_wal_lsn_diff(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()), 0)::float8 \
         WHERE pg_is_in_recovery()",
    ),
    (
        &REPLAY_LAG_SECONDS,
        "SELECT '', CASE WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0 \
         ELSE extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8 END \
         WHERE pg_is_in_recovery()",
    ),
    // A standby and the copy that becomes its data can have one name.
    (
        &STANDBY_LAG,
        "SELECT left(application_name, 63), max(CASE WHEN NOT pg_is_in_recovery() \
         THEN pg_wal_lsn_diff(pg_current_wal_flush_lsn(), replay_lsn) END)::float8 \
         FROM pg_stat_replication GROUP BY 1 ORDER BY 1 LIMIT 64",
    ),
    (
        &SLOT_WAL,
        "SELECT slot_name, CASE WHEN NOT pg_is_in_recovery() \
         THEN pg_wal_lsn_diff(pg_current_wal_flush_lsn(), restart_lsn) END::float8 \
         FROM pg_replication_slots ORDER BY 1 LIMIT 64",
    ),
    (
        &ARCHIVE_LAST_SUCCESS,
        "SELECT '', extract(epoch FROM last_archived_time)::float8 FROM pg_stat_archiver",
    ),
    (&ARCHIVE_FAILURES, "SELECT '', failed_count::float8 FROM pg_stat_archiver"),
    (&ARCHIVE_READY, "SELECT '', count(*)::float8 FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready'"),
];

/// A session, and the query for its version of PostgreSQL.
pub(super) struct Connection {
    session: Session,
    query: String,
}

/// Returns the samples, and the session for the next ones. Returns `None` if PostgreSQL does not answer.
pub(super) async fn ask(known: Option<Connection>, socket: &Path) -> Option<(Connection, Vec<Sample>)> {
    // The known session may be of a server that has ended.
    if let Some(connection) = known
        && let Ok(samples) = connection.ask().await
    {
        return Some((connection, samples));
    }
    let answer = async {
        let connection = Connection::open(socket).await?;
        let samples = connection.ask().await?;
        Ok::<_, SessionError>((connection, samples))
    };
    // PostgreSQL may not run. The probes and the report of the instance say so.
    answer.await.inspect_err(|error| debug!(%error, "no metrics of PostgreSQL")).ok()
}

impl Connection {
    async fn open(socket: &Path) -> Result<Self, SessionError> {
        let session = Session::connect_to_read(socket, QUERY).await?;
        let version = "SELECT current_setting('server_version_num')::int4";
        let rows = session.rows(ACTION, QUERY, version).await?;
        let version = rows.first().and_then(|row| row.try_get(0).ok());
        Ok(Self { session, query: query(version.ok_or(SessionError::Form(ACTION))?) })
    }

    async fn ask(&self) -> Result<Vec<Sample>, SessionError> {
        let rows = self.session.rows(ACTION, QUERY, &self.query).await?;
        Ok(rows.iter().filter_map(sample).collect())
    }
}

/// Returns the query for a version.
fn query(version: i32) -> String {
    let parts = PARTS.iter().map(|(_, part)| *part).chain([checkpoints(version)]);
    let parts = parts.enumerate().map(|(index, part)| {
        format!("SELECT {index}::int4, part.label::text, part.value FROM ({part}) AS part(label, value)")
    });
    parts.collect::<Vec<_>>().join("\nUNION ALL ")
}

fn checkpoints(version: i32) -> &'static str {
    if version < CHECKPOINTER {
        "SELECT 'timed', checkpoints_timed::float8 FROM pg_stat_bgwriter \
         UNION ALL SELECT 'requested', checkpoints_req::float8 FROM pg_stat_bgwriter"
    } else {
        "SELECT 'timed', num_timed::float8 FROM pg_stat_checkpointer \
         UNION ALL SELECT 'requested', num_requested::float8 FROM pg_stat_checkpointer"
    }
}

fn sample(row: &Row) -> Option<Sample> {
    let index = usize::try_from(row.try_get::<_, i32>(0).ok()?).ok()?;
    let metric = PARTS.get(index).map_or(&CHECKPOINTS, |(metric, _)| *metric);
    let label: String = row.try_get(1).ok()?;
    let value: Option<f64> = row.try_get(2).ok()?;
    let labels = metric.labels.iter().map(|_| label.clone()).collect();
    Some(Sample { metric, labels, value: value? })
}
