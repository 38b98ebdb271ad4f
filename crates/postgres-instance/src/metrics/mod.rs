//! `GET /metrics`: metrics for Prometheus, in the format OpenMetrics. `postgres_model::metrics` lists them.
//!
//! # Guarantees
//! - Nothing here waits for the main loop, and the main loop, the probes, and the Lease wait for nothing
//!   here.
//! - However many clients there are, PostgreSQL gets at most one query a second, which it gives up after
//!   [`QUERY`]. The sizes of databases are asked for in the background, at most every five minutes.
//!   Queries of users have limits of their own: see [`custom`].
//! - The session only reads.

mod certificates;
mod custom;
mod database_sizes;
mod exposition;
mod queries;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use hyper::{Method, Request, StatusCode, body::Incoming};
use parking_lot::Mutex;
use postgres_model::{
    metrics::{
        ARCHIVE_FAILURES, ARCHIVE_LAST_SUCCESS, ARCHIVE_READY, EPOCH, FENCES, INFO, LEASE_REMAINING, Metric,
        ROLE, TIMELINE, UP, VOLUME_BYTES, label_value,
    },
    report::{InstanceReport, InstanceState},
    space::Space,
};
use tokio::{net::TcpListener, time::Instant};
use tokio_util::sync::CancellationToken;

use self::{
    custom::{CustomQueries, CustomSample, Server},
    database_sizes::DatabaseSizes,
    queries::Connection,
};
use crate::{
    fence::Fence,
    settings::Run,
    status_api::{
        BindError, Client, Handler, Limits, Response, StatusHandle, document, listen, method_not_allowed,
        serve_http, text,
    },
};

/// How long the query of a scrape may take. Prometheus waits for 10 s by default.
const QUERY: Duration = Duration::from_secs(4);
/// How long an answer of PostgreSQL is used.
const FRESH: Duration = Duration::from_secs(1);
/// Most open connections of clients.
const CONNECTIONS: usize = 8;
/// Longest time between two requests of a connection. Prometheus scrapes every minute by default.
const IDLE: Duration = Duration::from_mins(2);

/// Metrics of a primary that archives.
const ARCHIVE: [&Metric; 3] = [&ARCHIVE_LAST_SUCCESS, &ARCHIVE_FAILURES, &ARCHIVE_READY];

/// One value of a metric.
#[derive(Clone, Debug, PartialEq)]
struct Sample {
    metric: &'static Metric,
    /// Values of the labels, in the order of the metric.
    labels: Vec<String>,
    value: f64,
}

impl Sample {
    fn new(metric: &'static Metric, value: f64) -> Self {
        Self { metric, labels: Vec::new(), value }
    }

    fn labelled(metric: &'static Metric, labels: &[&str], value: f64) -> Self {
        Self { metric, labels: labels.iter().map(|label| (*label).to_owned()).collect(), value }
    }
}

/// What the main loop observed last, and does not report to the operator.
#[derive(Debug, Default)]
pub(crate) struct Observations(Mutex<Observation>);

#[derive(Debug, Default, Clone)]
struct Observation {
    epoch: Option<u64>,
    space: Space,
    /// Name of the application's database, once the PostgresCluster has been read.
    database: Option<String>,
}

impl Observations {
    /// Notes the epoch of the cluster, the space of the volume, and the application's database.
    pub(crate) fn note(&self, epoch: Option<u64>, space: &Space, database: Option<&str>) {
        let mut last = self.0.lock();
        (last.epoch, last.space) = (epoch, *space);
        if let Some(database) = database
            && last.database.as_deref() != Some(database)
        {
            last.database = Some(database.to_owned());
        }
    }
}

/// The metrics of an instance.
pub(crate) struct Metrics {
    status: StatusHandle,
    fence: Fence,
    observations: Arc<Observations>,
    certificates: PathBuf,
    socket: PathBuf,
    /// One scrape at a time asks PostgreSQL. The others wait for its answer.
    last: tokio::sync::Mutex<LastScrape>,
    sizes: Arc<DatabaseSizes>,
    custom: Arc<CustomQueries>,
}

#[derive(Default)]
struct LastScrape {
    connection: Option<Connection>,
    /// When PostgreSQL answered or failed to, and its answer.
    answer: Option<(Instant, Option<Vec<Sample>>)>,
}

/// Metrics whose address is open.
pub(crate) struct MetricsServer {
    listener: TcpListener,
    metrics: Metrics,
}

impl Metrics {
    /// Creates the metrics of an instance.
    pub(crate) fn new(
        status: StatusHandle,
        fence: Fence,
        observations: Arc<Observations>,
        settings: &Run,
    ) -> Self {
        let (certificates, socket) = (settings.certificates.clone(), settings.sockets.clone());
        let sizes = Arc::new(DatabaseSizes::new(socket.clone()));
        let custom = Arc::new(CustomQueries::new(settings.queries.clone(), socket.clone()));
        let last = tokio::sync::Mutex::default();
        Self { status, fence, observations, certificates, socket, last, sizes, custom }
    }

    /// Opens the address.
    ///
    /// # Errors
    /// Returns an error if the address is in use, or does not belong to this Pod.
    pub(crate) async fn bind(self, address: SocketAddr) -> Result<MetricsServer, BindError> {
        let (listener, _) = listen(address, "metrics").await?;
        Ok(MetricsServer { listener, metrics: self })
    }

    async fn samples(&self) -> (Vec<Sample>, Vec<CustomSample>) {
        let report = self.status.report();
        // Without an archive, PostgreSQL counts the files that nobody keeps as archived.
        let archives = report.archive.is_some();
        let mut answer = self.ask().await;
        if let Some(samples) = answer.as_mut().filter(|_| !archives) {
            samples.retain(|sample| !ARCHIVE.contains(&sample.metric));
        }
        let up = Sample::new(&UP, if answer.is_some() { 1.0 } else { 0.0 });
        let sizes = if answer.is_some() { self.sizes.samples() } else { Vec::new() };
        let server = self.server(&report).filter(|_| answer.is_some());
        let (custom, success) = match server {
            Some(server) => self.custom.samples(server).await,
            None => (Vec::new(), Vec::new()),
        };
        let own = of_report(&report).into_iter().chain(self.observed());
        let certificates = certificates::samples(&self.certificates);
        let own = own.chain([up]).chain(answer.unwrap_or_default()).chain(sizes).chain(certificates);
        (own.chain(success).collect(), custom)
    }

    /// Returns the server for the queries of users, once the PostgresCluster has been read.
    fn server(&self, report: &InstanceReport) -> Option<Server> {
        Some(Server {
            is_primary: report.state == InstanceState::Primary,
            version: report.server_version.clone()?,
            database: self.observations.0.lock().database.clone()?,
        })
    }

    /// Returns the answer of PostgreSQL. Returns `None` if it does not answer.
    async fn ask(&self) -> Option<Vec<Sample>> {
        let mut last = self.last.lock().await;
        if let Some((at, answer)) = &last.answer
            && at.elapsed() < FRESH
        {
            return answer.clone();
        }
        let (connection, answer) = queries::ask(last.connection.take(), &self.socket).await.unzip();
        *last = LastScrape { connection, answer: Some((Instant::now(), answer.clone())) };
        answer
    }

    fn observed(&self) -> Vec<Sample> {
        let Observation { epoch, space, .. } = self.observations.0.lock().clone();
        let lease = Sample::new(&LEASE_REMAINING, self.fence.remaining().as_secs_f64());
        let bytes = |kind, bytes| Sample::labelled(&VOLUME_BYTES, &["data", kind], float(bytes));
        let space = [("total", space.total), ("free", space.free)].map(|(kind, value)| bytes(kind, value));
        let epoch = epoch.map(|epoch| Sample::new(&EPOCH, float(epoch)));
        [lease, Sample::new(&FENCES, float(self.fence.fences()))]
            .into_iter()
            .chain(space)
            .chain(epoch)
            .collect()
    }
}

impl MetricsServer {
    /// Serves until `stop`.
    pub(crate) async fn serve(self, stop: CancellationToken) {
        let limits = Limits { connections: CONNECTIONS, idle: IDLE, ..Limits::default() };
        serve_http(self.listener, self.metrics, limits, stop).await;
    }
}

impl Handler for Metrics {
    async fn handle(&self, request: Request<Incoming>, _client: Client) -> Response {
        if request.uri().path() != "/metrics" {
            return text(StatusCode::NOT_FOUND, "the metrics are at /metrics");
        }
        if request.method() != Method::GET {
            return method_not_allowed("GET");
        }
        let (samples, custom) = self.samples().await;
        match exposition::encode(samples, custom) {
            Ok(metrics) => document(exposition::CONTENT_TYPE, metrics.into()),
            Err(error) => {
                text(StatusCode::INTERNAL_SERVER_ERROR, &format!("cannot encode the metrics: {error}"))
            }
        }
    }
}

/// Returns what the report says.
fn of_report(report: &InstanceReport) -> Vec<Sample> {
    let version = report.server_version.as_deref();
    let info = version.map(|version| Sample::labelled(&INFO, &[version, &report.manager_version], 1.0));
    let role = Sample::labelled(&ROLE, &[&label_value(report.state)], 1.0);
    let timeline = report.timeline.map(|timeline| Sample::new(&TIMELINE, f64::from(timeline.get())));
    [Some(role), info, timeline].into_iter().flatten().collect()
}

#[allow(clippy::cast_precision_loss, reason = "Prometheus has no other numbers")]
fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use postgres_model::{report::InstanceState, timeline::TimelineId};

    use super::*;

    #[test]
    fn report_has_role_timeline_and_version() {
        let first = InstanceReport::starting("db-1".to_owned(), "uid".to_owned(), "0.1.0");
        assert_eq!(of_report(&first), [Sample::labelled(&ROLE, &["Hold"], 1.0)]);
        let report = InstanceReport {
            state: InstanceState::Primary,
            timeline: Some(TimelineId::FIRST),
            server_version: Some("17.6".to_owned()),
            ..first
        };
        let samples = of_report(&report);
        assert!(samples.contains(&Sample::labelled(&ROLE, &["Primary"], 1.0)), "{samples:?}");
        assert!(samples.contains(&Sample::labelled(&INFO, &["17.6", "0.1.0"], 1.0)), "{samples:?}");
        assert!(samples.contains(&Sample::new(&TIMELINE, 1.0)), "{samples:?}");
    }
}
