//! `status`: a cluster, with what its members serve as metrics.

use std::{collections::BTreeMap, pin::pin, time::Duration};

use ::postgres::{FENCE, InstanceStatus, Phase, PostgresCluster, PostgresClusterStatus, Role};
use anyhow::Result;
use futures::{AsyncRead, AsyncReadExt, future::join_all};
use http::Request;
use jiff::Timestamp;
use kube::{Client, ResourceExt};
use operator_core::error::chain;
use serde::Serialize;

use super::target::{Target, status_of};
use crate::{
    age::age,
    cluster::Cluster,
    flags::postgres::PostgresStatus,
    output::{BOLD, ExitStatus, WARNING, paint, print, status as painted, table},
};

/// Port of the metrics of a member.
const METRICS: u16 = 9187;
/// Timeout for the metrics of a member, which may hang.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Most bytes of the metrics of a member. They have about 10 KiB.
const MAX_METRICS: u64 = 1 << 20;

pub(super) async fn run(cluster: &Cluster, flags: &PostgresStatus) -> Result<ExitStatus> {
    let target = Target::new(cluster, &flags.cluster);
    let found = target.get().await?;
    let status = status_of(&found);
    let measured = status.instances.iter().map(|instance| async {
        Member::new(instance, measure(&cluster.client, cluster.namespace(), &instance.name).await)
    });
    let summary = Summary::new(&found, status.clone(), join_all(measured).await);
    print(flags.output.output, &summary, || summary.text(cluster.now()))?;
    Ok(ExitStatus::Success)
}

/// What a member says about itself, by the names of its metrics.
type Metrics = BTreeMap<String, f64>;

/// Reads the metrics of a member through the API server.
async fn measure(client: &Client, namespace: &str, pod: &str) -> Result<Metrics, String> {
    let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}:{METRICS}/proxy/metrics");
    let request = Request::get(path).body(Vec::new()).map_err(|error| chain(&error))?;
    let response = async {
        let body = client.request_stream(request).await.map_err(|error| chain(&error))?;
        read(pin!(body)).await
    };
    let text = tokio::time::timeout(TIMEOUT, response).await;
    Ok(parse(&text.map_err(|_| format!("no response within {TIMEOUT:?}"))??))
}

/// Reads a text of limited size.
async fn read(body: impl AsyncRead + Unpin) -> Result<String, String> {
    let mut bytes = Vec::new();
    body.take(MAX_METRICS + 1).read_to_end(&mut bytes).await.map_err(|error| chain(&error))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_METRICS) {
        return Err(format!("the response has more than {MAX_METRICS} bytes"));
    }
    String::from_utf8(bytes).map_err(|error| chain(&error))
}

/// Returns the metrics without labels.
fn parse(text: &str) -> Metrics {
    let samples = text.lines().filter_map(|line| line.strip_prefix("ensemble_postgres_")?.split_once(' '));
    let plain = samples.filter(|(name, _)| !name.contains('{'));
    plain.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
}

/// A cluster as it is shown. The fields are part of the JSON output.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    namespace: String,
    name: String,
    phase: Phase,
    reason: String,
    version: String,
    size: i32,
    ready_members: i32,
    primary: String,
    epoch: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_id: Option<String>,
    synchronous: Synchronous,
    /// Value of the annotation that lists fenced members.
    #[serde(skip_serializing_if = "Option::is_none")]
    fenced: Option<String>,
    paused: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    last_archived: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_backup: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_backup_stopped_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_recoverable: Option<Timestamp>,
    members: Vec<Member>,
    conditions: Vec<ConditionRow>,
}

/// How many standbys a commit waits for.
#[derive(Serialize)]
struct Synchronous {
    number: u32,
    members: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Member {
    name: String,
    role: Role,
    ready: bool,
    node: String,
    address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeline: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replay_lag_bytes: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replay_lag_seconds: Option<f64>,
    /// Why the metrics of the member could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConditionRow {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: String,
    message: String,
    since: Timestamp,
}

impl Member {
    fn new(instance: &InstanceStatus, measured: Result<Metrics, String>) -> Self {
        let (metrics, error) = match measured {
            Ok(metrics) => (metrics, None),
            Err(error) => (Metrics::new(), Some(error)),
        };
        let metric = |name: &str| metrics.get(name).copied();
        Self {
            name: instance.name.clone(),
            role: instance.role,
            ready: instance.ready,
            node: instance.node.clone(),
            address: instance.address.clone(),
            timeline: metric("timeline"),
            replay_lag_bytes: metric("replay_lag_bytes"),
            replay_lag_seconds: metric("replay_lag_seconds"),
            error,
        }
    }

    fn cells(&self) -> [String; 7] {
        let role = match self.role {
            Role::Primary => "primary",
            Role::Replica => "replica",
        };
        let ready = if self.ready { "True" } else { "False" };
        let number = |value: Option<f64>, unit: &str| value.map(|value| format!("{value}{unit}"));
        let lag = [number(self.replay_lag_bytes, " B"), number(self.replay_lag_seconds, " s")];
        let lag = lag.into_iter().flatten().collect::<Vec<_>>().join(", ");
        [
            self.name.clone(),
            role.to_owned(),
            painted(ready),
            number(self.timeline, "").unwrap_or_else(|| "?".to_owned()),
            lag,
            self.node.clone(),
            self.address.clone(),
        ]
    }
}

impl Summary {
    fn new(cluster: &PostgresCluster, status: PostgresClusterStatus, members: Vec<Member>) -> Self {
        let conditions = status.conditions.into_iter().map(|condition| ConditionRow {
            type_: condition.type_,
            status: condition.status,
            reason: condition.reason,
            message: condition.message,
            since: condition.last_transition_time.0,
        });
        Self {
            namespace: cluster.namespace().unwrap_or_default(),
            name: cluster.name_any(),
            phase: status.phase,
            reason: status.reason,
            version: status.current_version,
            size: cluster.spec.size,
            ready_members: status.ready_members,
            primary: status.primary.current,
            epoch: status.primary.epoch,
            system_id: status.system_id.map(|id| id.to_string()),
            synchronous: Synchronous { number: status.sync.number, members: status.sync.members },
            fenced: cluster.annotations().get(FENCE).cloned(),
            paused: cluster.spec.paused,
            last_archived: status.last_archived,
            last_backup: status.last_backup.as_ref().map(|backup| backup.name.clone()),
            last_backup_stopped_at: status.last_backup.map(|backup| backup.stopped_at.0),
            first_recoverable: status.first_recoverable.map(|time| time.0),
            members,
            conditions: conditions.collect(),
        }
    }

    fn text(&self, now: Timestamp) -> String {
        let mut lines = vec![paint(BOLD, &format!("PostgresCluster {}/{}", self.namespace, self.name))];
        let mut line = |name: &str, value: String| lines.push(format!("{:<14}{value}", format!("{name}:")));
        let reason = if self.reason.is_empty() { String::new() } else { format!(" ({})", self.reason) };
        line("Phase", format!("{:?}{reason}", self.phase));
        line("Version", self.version.clone());
        line("Ready", format!("{} of {} members", self.ready_members, self.size));
        let primary = if self.primary.is_empty() { "none" } else { &self.primary };
        line("Primary", format!("{primary}, epoch {}", self.epoch));
        line(
            "Synchronous",
            match self.synchronous.number {
                0 => "commits wait for no standby".to_owned(),
                number => format!("commits wait for {number} of {}", self.synchronous.members.join(", ")),
            },
        );
        if self.paused {
            line("Paused", paint(WARNING, "the controller does nothing, because spec.paused is true"));
        }
        if let Some(fenced) = &self.fenced {
            line("Fenced", paint(WARNING, fenced));
        }
        if !self.last_archived.is_empty() {
            line("Archived", format!("up to {}", self.last_archived));
        }
        if let (Some(name), Some(stopped)) = (&self.last_backup, self.last_backup_stopped_at) {
            line("Last backup", format!("{name}, {} ago", age(stopped, now)));
        }
        if let Some(first) = self.first_recoverable {
            line("Recoverable", format!("since {first}"));
        }
        let members = self.members.iter().map(Member::cells);
        let members =
            table(["MEMBER", "ROLE", "READY", "TIMELINE", "REPLAY LAG", "NODE", "ADDRESS"], members);
        let conditions = self.conditions.iter().map(|row| {
            [
                row.type_.clone(),
                row.status.clone(),
                row.reason.clone(),
                age(row.since, now),
                row.message.clone(),
            ]
        });
        let conditions = table(["CONDITION", "STATUS", "REASON", "AGE", "MESSAGE"], conditions);
        let errors = self.members.iter().filter_map(|member| {
            let error = member.error.as_ref()?;
            Some(format!("{} the metrics of {} cannot be read: {error}\n", paint(WARNING, "?"), member.name))
        });
        format!("{}\n\n{members}\n{conditions}{}", lines.join("\n"), errors.collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{output::plain, postgres::testing::available};

    #[tokio::test]
    async fn responses_without_end_are_refused() {
        assert_eq!(read(&b"ensemble_postgres_up 1\n"[..]).await.unwrap(), "ensemble_postgres_up 1\n");
        let error = read(futures::io::repeat(b'a')).await.unwrap_err();
        assert_eq!(error, "the response has more than 1048576 bytes");
        assert!(read(&b"\xff"[..]).await.is_err());
    }

    #[test]
    fn shows_members_with_their_metrics() {
        let cluster = available(&["db-1", "db-2", "db-3"]);
        let status = status_of(&cluster);
        let metrics = parse(
            "# TYPE ensemble_postgres_timeline gauge\nensemble_postgres_timeline 2.0\n\
             ensemble_postgres_role{role=\"Standby\"} 1.0\nensemble_postgres_replay_lag_bytes 16.0\n\
             ensemble_postgres_replay_lag_seconds 0.5\n",
        );
        assert_eq!(metrics.len(), 3, "metrics with labels are left out");
        let measured = [
            Ok([("timeline".to_owned(), 2.0)].into()),
            Ok(metrics),
            Err("pods \"db-3\" is forbidden".to_owned()),
        ];
        let members =
            status.instances.iter().zip(measured).map(|(instance, measured)| Member::new(instance, measured));
        let members = members.collect();
        let summary = Summary::new(&cluster, status, members);
        insta::assert_snapshot!(plain(&summary.text("2026-01-01T01:00:00Z".parse().unwrap())));
    }
}
