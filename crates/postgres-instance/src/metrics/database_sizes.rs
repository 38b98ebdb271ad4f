//! Sizes of the databases. PostgreSQL looks at each file for them, which takes long with many tables.

use std::{path::PathBuf, sync::Arc, time::Duration};

use parking_lot::Mutex;
use postgres_model::metrics::DATABASE_BYTES;
use tokio::time::Instant;
use tracing::warn;

use super::Sample;
use crate::session::{Session, SessionError};

/// Shortest time between two questions.
const REFRESH: Duration = Duration::from_mins(5);
/// How long an answer may take.
const LIMIT: Duration = Duration::from_mins(2);

const SIZES: &str = "\
SELECT datname::text, pg_database_size(oid)::float8 FROM pg_database WHERE datallowconn ORDER BY 2 DESC LIMIT 64";

/// The last sizes.
pub(super) struct DatabaseSizes {
    socket: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    asked: Option<Instant>,
    samples: Vec<Sample>,
}

impl DatabaseSizes {
    pub(super) fn new(socket: PathBuf) -> Self {
        Self { socket, state: Mutex::default() }
    }

    /// Returns the last sizes. If they are old, asks for new ones, which the next scrapes get.
    pub(super) fn samples(self: &Arc<Self>) -> Vec<Sample> {
        let mut state = self.state.lock();
        if state.asked.is_none_or(|asked| asked.elapsed() >= REFRESH) {
            state.asked = Some(Instant::now());
            tokio::spawn(self.clone().refresh());
        }
        state.samples.clone()
    }

    async fn refresh(self: Arc<Self>) {
        match self.ask().await {
            Ok(samples) => self.state.lock().samples = samples,
            Err(error) => warn!(%error, "cannot read the sizes of the databases for the metrics"),
        }
    }

    async fn ask(&self) -> Result<Vec<Sample>, SessionError> {
        let session = Session::connect_to_read(&self.socket, LIMIT).await?;
        let rows = session.rows("query for the sizes of databases", LIMIT, SIZES).await?;
        let sample = |row: &tokio_postgres::Row| {
            let (database, bytes): (String, Option<f64>) = (row.try_get(0).ok()?, row.try_get(1).ok()?);
            // A database that was dropped meanwhile has no size.
            Some(Sample::labelled(&DATABASE_BYTES, &[&database], bytes?))
        };
        Ok(rows.iter().filter_map(sample).collect())
    }
}
