//! Gauges of PostgresClusters. Pure.

use kube::ResourceExt;
use operator_core::{
    conditions::is_true,
    metrics::{Gauge, GaugeSamples},
};
use postgres_model::metrics::label_value;

use crate::{
    api::PostgresCluster,
    condition_types::{ARCHIVING, AVAILABLE, BACKUP_RECENT, DATA_SAFE, STORAGE_HEALTHY},
};

/// Prometheus sets the label `namespace` to that of the manager.
const NAMESPACE: (&str, &str) = ("target_namespace", "namespace of the PostgresCluster");
const CLUSTER: (&str, &str) = ("postgrescluster", "name of the PostgresCluster");
const PHASE: (&str, &str) = ("phase", "the phase in the status, such as `Running`");

static SIZE: Gauge = Gauge {
    name: "ensemble_postgres_cluster_size",
    help: "Number of members that the spec of a PostgresCluster asks for: 0 if it is hibernated",
    labels: &[NAMESPACE, CLUSTER],
};
static READY_MEMBERS: Gauge = Gauge {
    name: "ensemble_postgres_cluster_ready_members",
    help: "Number of ready members of a PostgresCluster",
    labels: &[NAMESPACE, CLUSTER],
};
static CLUSTER_PHASE: Gauge = Gauge {
    name: "ensemble_postgres_cluster_phase",
    help: "Always 1; the label is the phase of a PostgresCluster",
    labels: &[NAMESPACE, CLUSTER, PHASE],
};
static CLUSTER_AVAILABLE: Gauge = Gauge {
    name: "ensemble_postgres_cluster_available",
    help: "Whether the primary of a PostgresCluster takes writes, 1 or 0: the condition Available; \
           missing if it is hibernated",
    labels: &[NAMESPACE, CLUSTER],
};
static CLUSTER_DATA_SAFE: Gauge = Gauge {
    name: "ensemble_postgres_cluster_data_safe",
    help: "Whether commits wait for as many standbys as the spec of a PostgresCluster asks for, 1 or 0: the \
           condition DataSafe; missing if the spec asks for none",
    labels: &[NAMESPACE, CLUSTER],
};
static LAST_BACKUP: Gauge = Gauge {
    name: "ensemble_postgres_cluster_last_backup_timestamp_seconds",
    help: "End of the last complete backup of a PostgresCluster, in seconds since 1970; missing without one",
    labels: &[NAMESPACE, CLUSTER],
};
static CLUSTER_BACKUP_RECENT: Gauge = Gauge {
    name: "ensemble_postgres_cluster_backup_recent",
    help: "Whether the last backup of a PostgresCluster is as recent as its schedules say, 1 or 0: the \
           condition BackupRecent; missing without `spec.backup`, or if it is hibernated",
    labels: &[NAMESPACE, CLUSTER],
};

static CLUSTER_ARCHIVING: Gauge = Gauge {
    name: "ensemble_postgres_cluster_archiving",
    help: "Whether the WAL of a PostgresCluster is archived, 1 or 0: the condition Archiving; missing without \
           `spec.backup`, or if it is hibernated",
    labels: &[NAMESPACE, CLUSTER],
};
static CLUSTER_STORAGE_HEALTHY: Gauge = Gauge {
    name: "ensemble_postgres_cluster_storage_healthy",
    help: "Whether all volumes of a PostgresCluster have the size of the spec and free space, 1 or 0: the \
           condition StorageHealthy",
    labels: &[NAMESPACE, CLUSTER],
};

/// Gauges of this controller.
pub(crate) static GAUGES: &[&Gauge] = &[
    &SIZE,
    &READY_MEMBERS,
    &CLUSTER_PHASE,
    &CLUSTER_AVAILABLE,
    &CLUSTER_DATA_SAFE,
    &LAST_BACKUP,
    &CLUSTER_BACKUP_RECENT,
    &CLUSTER_ARCHIVING,
    &CLUSTER_STORAGE_HEALTHY,
];

/// Returns the readings of the gauges.
pub(crate) fn readings<T: AsRef<PostgresCluster>>(
    clusters: impl IntoIterator<Item = T>,
) -> Vec<GaugeSamples> {
    let mut readings: Vec<_> =
        GAUGES.iter().map(|gauge| GaugeSamples { gauge, series: Vec::new() }).collect();
    for cluster in clusters {
        for (reading, sample) in readings.iter_mut().zip(samples(cluster.as_ref())) {
            reading.series.extend(sample);
        }
    }
    readings
}

/// Returns the sample of each gauge for one cluster, in the order of [`GAUGES`].
fn samples(cluster: &PostgresCluster) -> [Option<(Vec<String>, f64)>; 9] {
    let status = cluster.status.clone().unwrap_or_default();
    let labels = || vec![cluster.namespace().unwrap_or_default(), cluster.name_any()];
    let sample = |value: f64| Some((labels(), value));
    let condition = |type_| sample(if is_true(&status.conditions, type_) { 1.0 } else { 0.0 });
    let size = usize::try_from(cluster.spec.size).unwrap_or_default();
    let asks_for_standbys = cluster.spec.synchronous.number(size) > 0;
    let wanted = if cluster.spec.hibernated { 0 } else { cluster.spec.size };
    let is_awake = |_: &_| !cluster.spec.hibernated;
    let phase = [labels(), vec![label_value(status.phase)]].concat();
    [
        sample(wanted.into()),
        sample(status.ready_members.into()),
        Some((phase, 1.0)),
        condition(AVAILABLE).filter(is_awake),
        condition(DATA_SAFE).filter(|_| asks_for_standbys),
        status.last_backup.and_then(|backup| sample(backup.stopped_at.0.as_duration().as_secs_f64())),
        condition(BACKUP_RECENT).filter(|_| cluster.spec.backup.is_some()).filter(is_awake),
        condition(ARCHIVING).filter(|_| cluster.spec.backup.is_some()).filter(is_awake),
        condition(STORAGE_HEALTHY),
    ]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::api::fixture;

    /// Returns all series of a cluster, each as its name without the prefix, its further labels, and
    /// its value.
    fn series(spec: &Value, status: Value) -> Vec<String> {
        let mut cluster = fixture::cluster(spec);
        cluster.status = Some(serde_json::from_value(status).unwrap());
        let readings = readings([Arc::new(cluster)]);
        assert_eq!(readings.iter().map(|reading| reading.gauge).collect::<Vec<_>>(), GAUGES);
        let lines = readings.into_iter().flat_map(|GaugeSamples { gauge, series }| {
            let name = gauge.name.strip_prefix("ensemble_postgres_cluster_").unwrap();
            series.into_iter().map(move |(labels, value)| {
                assert_eq!(labels.len(), gauge.labels.len());
                assert_eq!(labels[..2], ["shop", "db"]);
                [vec![name.to_owned()], labels[2..].to_vec(), vec![value.to_string()]].concat().join(" ")
            })
        });
        lines.collect()
    }

    fn condition(type_: &str, status: &str) -> Value {
        json!({"type": type_, "status": status, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }

    #[test]
    fn gauges_show_spec_and_status() {
        let backup = json!({
            "objectStore": {
                "url": "s3://bucket",
                "credentials": {
                    "accessKeyID": {"name": "store", "key": "id"},
                    "secretAccessKey": {"name": "store", "key": "secret"},
                },
            },
        });
        let status = json!({
            "phase": "FailingOver",
            "readyMembers": 2,
            "lastBackup": {"name": "nightly", "key": "1", "stoppedAt": "1970-01-01T01:00:00Z"},
            "conditions": [
                condition("Available", "False"), condition("DataSafe", "True"), condition("BackupRecent", "True"), condition("StorageHealthy", "True"),
            ],
        });
        let series = series(&json!({"size": 3, "backup": backup}), status);
        assert_eq!(
            series,
            [
                "size 3",
                "ready_members 2",
                "phase FailingOver 1",
                "available 0",
                "data_safe 1",
                "last_backup_timestamp_seconds 3600",
                "backup_recent 1",
                "archiving 0",
                "storage_healthy 1",
            ]
        );
    }

    #[test]
    fn what_nobody_asks_for_has_no_series() {
        let series = series(&json!({"size": 1}), json!({}));
        assert_eq!(
            series,
            ["size 1", "ready_members 0", "phase Creating 1", "available 0", "storage_healthy 0"]
        );
    }

    #[test]
    fn cluster_that_is_gone_has_no_series() {
        assert!(readings::<Arc<PostgresCluster>>([]).iter().all(|reading| reading.series.is_empty()));
    }
}
