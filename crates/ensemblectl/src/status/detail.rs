//! One object in detail: its conditions, children, and Events, and the leader of its controller.

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::{
    api::{coordination::v1::Lease, core::v1::Event},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams},
};
use operator_core::conditions::READY;
use operator_runtime::election::lease_name;
use serde::Serialize;

use super::Row;
use crate::{
    age::age,
    check::holder,
    children::{self, Node},
    cluster::Cluster,
    installation::Installation,
    kinds::{Kind, list},
    object::{Readiness, conditions},
    output::{BOLD, DIM, paint, status, table},
    tree,
};

/// Number of Events shown, the newest ones.
const MAX_EVENTS: usize = 10;

/// Status of one object.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectStatus {
    object: Row,
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<String>,
    controller: &'static str,
    conditions: Vec<Condition>,
    children: Vec<Node>,
    events: Vec<EventRow>,
    /// Errors of what could not be read.
    #[serde(rename = "hidden", skip_serializing_if = "Vec::is_empty")]
    errors: Vec<String>,
}

/// Row of the table of Events.
#[derive(Clone, Debug, Serialize)]
struct EventRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<Timestamp>,
    count: i32,
    #[serde(rename = "type")]
    type_: String,
    reason: String,
    message: String,
}

/// Returns the leader of the kind's controller.
async fn leader(cluster: &Cluster, kind: &Kind) -> Result<Option<String>> {
    let installation = Installation::find(cluster).await?;
    let Some(namespace) = installation.lease_namespace() else { return Ok(None) };
    let name = lease_name(kind.controller.name);
    let lease = Api::<Lease>::namespaced(cluster.client.clone(), namespace).get_opt(&name).await;
    let lease = lease.with_context(|| format!("cannot read the Lease {namespace}/{name}"))?;
    Ok(lease.as_ref().and_then(holder))
}

/// Lists the newest Events about an object, in chronological order.
async fn events(cluster: &Cluster, object: &DynamicObject) -> Result<Vec<EventRow>> {
    // Events about cluster-scoped objects are in the namespace default.
    let namespace = object.namespace().unwrap_or_else(|| "default".to_owned());
    let api = Api::<Event>::namespaced(cluster.client.clone(), &namespace);
    let params =
        ListParams::default().fields(&format!("involvedObject.uid={}", object.uid().unwrap_or_default()));
    let events = list(&api, &params)
        .await
        .with_context(|| format!("cannot list the Events of namespace {namespace}"))?;
    let mut rows: Vec<_> = events.into_iter().map(event_row).collect();
    rows.sort_by_key(|event| event.last);
    Ok(rows.split_off(rows.len().saturating_sub(MAX_EVENTS)))
}

fn event_row(event: Event) -> EventRow {
    let series = event.series.as_ref();
    let last = series
        .and_then(|series| series.last_observed_time.as_ref())
        .or(event.event_time.as_ref())
        .map(|time| time.0);
    EventRow {
        last: last.or_else(|| event.last_timestamp.as_ref().map(|time| time.0)),
        count: series.and_then(|series| series.count).or(event.count).unwrap_or(1),
        type_: event.type_.unwrap_or_default(),
        reason: event.reason.unwrap_or_default(),
        message: event.message.unwrap_or_default(),
    }
}

impl ObjectStatus {
    /// Gets an object with its conditions, children, and Events, and the leader of its controller.
    ///
    /// # Errors
    /// Returns an error if the object cannot be read or discovery fails. Other errors are part of
    /// the result.
    pub(super) async fn get(cluster: &Cluster, kind: &Kind, name: &str) -> Result<Self> {
        let object = kind.get(cluster, name).await?;
        let (row, conditions) = (Row::of(kind, &object), conditions(&object));
        let events = events(cluster, &object).await;
        let leader = leader(cluster, kind).await;
        let tree = children::find(&cluster.client, kind, object).await?;
        let mut errors = tree.errors;
        let mut record = |error: anyhow::Error| errors.push(operator_core::error::chain(error.as_ref()));
        Ok(Self {
            object: row,
            controller: kind.controller.name,
            leader: leader.map_err(&mut record).ok().flatten(),
            conditions,
            children: tree.root.children,
            events: events.map_err(&mut record).unwrap_or_default(),
            errors,
        })
    }

    /// Formats the object with its conditions, children, and Events.
    pub(super) fn text(&self, now: Timestamp) -> String {
        let Self { object, leader, controller, conditions, children, events, errors } = self;
        let Readiness { ready, reason, .. } = &object.readiness;
        let leader = leader.as_deref().unwrap_or("unknown");
        let below: String =
            children.iter().map(|child| tree::text_within(child, object.namespace.as_deref())).collect();
        let errors = errors.iter().map(|error| paint(DIM, &format!("\nnot shown: {error}\n")));
        [
            format!("{} {}\n", paint(BOLD, &object.kind), paint(BOLD, &object.key())),
            format!("Ready: {} {reason}\n", status(if ready.is_empty() { "-" } else { ready })),
            format!("Age: {}   Controller: {controller}   Leader: {leader}\n", object.age(now)),
            section("Conditions", &condition_table(conditions, now)),
            section("Children", &below),
            section("Events", &event_table(events, now)),
            errors.collect(),
        ]
        .concat()
    }
}

fn section(title: &str, content: &str) -> String {
    let content = if content.is_empty() { "none\n" } else { content };
    format!("\n{}\n{content}", paint(BOLD, title))
}

fn condition_table(conditions: &[Condition], now: Timestamp) -> String {
    if conditions.is_empty() {
        return String::new();
    }
    let rows = conditions.iter().map(|condition| {
        let age = age(condition.last_transition_time.0, now);
        // Only Ready is coloured, because True is not good for every condition.
        let status =
            if condition.type_ == READY { status(&condition.status) } else { condition.status.clone() };
        [condition.type_.clone(), status, condition.reason.clone(), age, condition.message.clone()]
    });
    table(["TYPE", "STATUS", "REASON", "AGE", "MESSAGE"], rows)
}

fn event_table(events: &[EventRow], now: Timestamp) -> String {
    if events.is_empty() {
        return String::new();
    }
    let rows = events.iter().map(|event| {
        let last = event.last.map(|last| age(last, now)).unwrap_or_default();
        let last_seen = if event.count > 1 { format!("{last} (x{})", event.count) } else { last };
        [last_seen, event.type_.clone(), event.reason.clone(), event.message.clone()]
    });
    table(["LAST SEEN", "TYPE", "REASON", "MESSAGE"], rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        kinds,
        output::plain,
        status::tests::{now, object},
    };

    #[test]
    fn formats_object_in_detail() {
        let object = object("web", "False");
        let child = Node {
            kind: "Pod".into(),
            namespace: Some("shop".into()),
            name: "web-0".into(),
            state: "Running".into(),
            children: Vec::new(),
        };
        let event = json!({
            "metadata": {}, "involvedObject": {}, "type": "Warning", "reason": "FailedCreate", "message": "over quota", "count": 3,
            "lastTimestamp": "2026-01-01T00:58:00Z",
        });
        let status = ObjectStatus {
            object: Row::of(&kinds::find("podset").unwrap(), &object),
            controller: "podset",
            leader: Some("manager-1".to_owned()),
            conditions: conditions(&object),
            children: vec![child],
            events: vec![event_row(serde_json::from_value(event).unwrap())],
            errors: Vec::new(),
        };
        insta::assert_snapshot!(plain(&status.text(now())));
    }
}
