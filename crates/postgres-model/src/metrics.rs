//! Metrics that an instance serves. The instance, the reference page, and the tests of alerts and panels
//! use this list.
//!
//! Prometheus adds the labels `namespace` and `pod`. The PodMonitor of the installation adds
//! `postgrescluster`, the name of the cluster.

use serde::Serialize;

/// Role that runs the queries of users. It is no superuser, and may read the statistics of PostgreSQL.
pub const MONITOR: &str = "ensemble_monitor";
/// Beginning of the names of metrics by queries of users. The names of the query and the column follow.
pub const CUSTOM_PREFIX: &str = "ensemble_postgres_custom_";
/// Port on which instances serve `/metrics`, by HTTP.
pub const PORT: u16 = 9187;

/// A metric.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name, with the unit, and with `_total` if it is a counter.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
    /// Help text, without a full stop.
    pub help: &'static str,
    /// Names and descriptions of the labels.
    pub labels: &'static [(&'static str, &'static str)],
}

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Starts at zero with the process that counts.
    Counter,
    /// Increases and decreases.
    Gauge,
}

/// Returns a value of the API as a label, such as `Primary`. Returns an empty text for other values than
/// those of an enum without fields.
pub fn label_value(value: impl Serialize) -> String {
    let value = serde_json::to_value(value).ok();
    value.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

impl Metric {
    const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Gauge, help, labels: &[] }
    }

    const fn counter(name: &'static str, help: &'static str) -> Self {
        Self { kind: Kind::Counter, ..Self::gauge(name, help) }
    }

    const fn by(self, labels: &'static [(&'static str, &'static str)]) -> Self {
        Self { labels, ..self }
    }
}

/// Versions.
pub static INFO: Metric =
    Metric::gauge("ensemble_postgres_info", "Always 1; the labels are the versions of the member").by(&[
        ("version", "version of PostgreSQL, such as `17.6`"),
        ("manager_version", "version of the instance manager"),
    ]);
/// Whether PostgreSQL answers.
pub static UP: Metric = Metric::gauge("ensemble_postgres_up", "Whether PostgreSQL answers queries, 1 or 0");
/// State of the instance.
pub static ROLE: Metric =
    Metric::gauge("ensemble_postgres_role", "Always 1; the label is the state of the member")
        .by(&[("role", "the state of the member, such as `Primary` or `Standby`")]);
/// Timeline.
pub static TIMELINE: Metric =
    Metric::gauge("ensemble_postgres_timeline", "Timeline of the WAL of the member; missing without data");
/// Epoch.
pub static EPOCH: Metric = Metric::gauge(
    "ensemble_postgres_epoch",
    "Epoch of the PostgresCluster, as the member read it last; it increases with each change of the primary",
);
/// Lease.
pub static LEASE_REMAINING: Metric = Metric::gauge(
    "ensemble_postgres_lease_remaining_seconds",
    "Time until the Lease of the member expires, in seconds; 0 if the member does not hold it",
);
/// Fences.
pub static FENCES: Metric = Metric::counter(
    "ensemble_postgres_fences_total",
    "Number of times that the member stopped a primary at once because its Lease had expired",
);
/// Bytes that a standby has not replayed.
pub static REPLAY_LAG_BYTES: Metric = Metric::gauge(
    "ensemble_postgres_replay_lag_bytes",
    "WAL that a standby has received and not replayed, in bytes; missing on a primary",
);
/// Time of the last transaction that a standby has replayed.
pub static REPLAY_LAG_SECONDS: Metric = Metric::gauge(
    "ensemble_postgres_replay_lag_seconds",
    "Age of the last transaction that a standby has replayed, in seconds; 0 if it has replayed all it received, \
     and missing on a primary",
);
/// Bytes that the standbys of a primary have not replayed.
pub static STANDBY_LAG: Metric = Metric::gauge(
    "ensemble_postgres_standby_lag_bytes",
    "WAL of a primary that a connected standby has not replayed, in bytes",
)
.by(&[("standby", "name of the standby")]);
/// WAL that replication slots keep.
pub static SLOT_WAL: Metric = Metric::gauge(
    "ensemble_postgres_slot_wal_bytes",
    "WAL that a replication slot of a primary keeps, in bytes: what its reader has not confirmed",
)
.by(&[("slot", "name of the slot")]);
/// Connections.
pub static CONNECTIONS: Metric =
    Metric::gauge("ensemble_postgres_connections", "Number of connections of clients")
        .by(&[("state", "the state in `pg_stat_activity`, such as `idle in transaction`")]);
/// Most connections.
pub static MAX_CONNECTIONS: Metric =
    Metric::gauge("ensemble_postgres_max_connections", "The parameter max_connections");
/// Transactions.
pub static TRANSACTIONS: Metric =
    Metric::counter("ensemble_postgres_transactions_total", "Number of transactions in all databases")
        .by(&[("result", "`commit` or `rollback`")]);
/// Size of the databases.
pub static DATABASE_BYTES: Metric = Metric::gauge(
    "ensemble_postgres_database_bytes",
    "Size of a database in bytes, which is read at most every 5 minutes; of the 64 largest databases",
)
.by(&[("database", "name of the database")]);
/// Age of the oldest transaction identifier.
pub static XID_AGE: Metric = Metric::gauge(
    "ensemble_postgres_xid_age",
    "Number of transactions since the oldest one that is not frozen; at 2 billion PostgreSQL takes no writes",
);
/// Checkpoints.
pub static CHECKPOINTS: Metric =
    Metric::counter("ensemble_postgres_checkpoints_total", "Number of checkpoints")
        .by(&[("trigger", "`timed` or `requested`")]);
/// Time of the last archived segment.
pub static ARCHIVE_LAST_SUCCESS: Metric = Metric::gauge(
    "ensemble_postgres_archive_last_success_timestamp_seconds",
    "Time at which a primary archived WAL last, in seconds since 1970; missing without `spec.backup`",
);
/// Failed attempts to archive.
pub static ARCHIVE_FAILURES: Metric = Metric::counter(
    "ensemble_postgres_archive_failures_total",
    "Number of failed attempts of a primary to archive a file of the WAL; missing without `spec.backup`",
);
/// Segments that wait for the archive.
pub static ARCHIVE_READY: Metric = Metric::gauge(
    "ensemble_postgres_archive_ready_segments",
    "Number of files of the WAL that wait until a primary has archived them; missing without `spec.backup`",
);
/// Space of the volume.
pub static VOLUME_BYTES: Metric =
    Metric::gauge("ensemble_postgres_volume_bytes", "Space of a volume in bytes").by(&[
        ("volume", "`data`"),
        ("kind", "`total`, or `free`: what PostgreSQL can still write, without the reserve of the member"),
    ]);
/// Ends of the certificates.
pub static CERTIFICATE_EXPIRY: Metric = Metric::gauge(
    "ensemble_postgres_certificate_expiry_timestamp_seconds",
    "End of the validity of a certificate of the member, in seconds since 1970",
)
.by(&[("certificate", "`server`, or `replication`, with which the member logs in to others")]);
/// Queries of users.
pub static QUERY_SUCCESS: Metric = Metric::gauge(
    "ensemble_postgres_query_success",
    "Whether a query of `spec.monitoring.queriesConfigMap` succeeded when it ran last, 1 or 0",
)
.by(&[("query", "name of the query, or of the key of the ConfigMap if it cannot be read")]);

/// All metrics, in the order in which they are served. Those of queries of users follow.
pub static METRICS: [&Metric; 23] = [
    &INFO,
    &UP,
    &ROLE,
    &TIMELINE,
    &EPOCH,
    &LEASE_REMAINING,
    &FENCES,
    &REPLAY_LAG_BYTES,
    &REPLAY_LAG_SECONDS,
    &STANDBY_LAG,
    &SLOT_WAL,
    &CONNECTIONS,
    &MAX_CONNECTIONS,
    &TRANSACTIONS,
    &DATABASE_BYTES,
    &XID_AGE,
    &CHECKPOINTS,
    &ARCHIVE_LAST_SUCCESS,
    &ARCHIVE_FAILURES,
    &ARCHIVE_READY,
    &VOLUME_BYTES,
    &CERTIFICATE_EXPIRY,
    &QUERY_SUCCESS,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_follow_prometheus() {
        let names: BTreeSet<_> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), METRICS.len());
        for metric in METRICS {
            assert!(metric.name.starts_with("ensemble_postgres_"), "{metric:?}");
            assert!(!metric.name.starts_with("ensemble_postgres_cluster_"), "{metric:?}: of the manager");
            assert!(!metric.name.starts_with(CUSTOM_PREFIX), "{metric:?}: of a query of a user");
            assert_eq!(metric.name.ends_with("_total"), metric.kind == Kind::Counter, "{metric:?}");
            assert!(!metric.help.ends_with('.'), "{metric:?}");
        }
    }
}
