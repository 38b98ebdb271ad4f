//! One object: its conditions, what belongs to it, Events, and who leads its controller.

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
    connect::Cluster,
    installation::Installation,
    kinds::{Kind, list},
    object::{Readiness, conditions},
    output::{HEAD, QUIET, paint, status, table},
    tree,
};

/// How many Events are shown, the newest.
const EVENTS: usize = 10;

/// All about one object.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct One {
    object: Row,
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<String>,
    controller: &'static str,
    conditions: Vec<Condition>,
    children: Vec<Node>,
    events: Vec<Said>,
    /// What could not be found out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hidden: Vec<String>,
}

/// An Event.
#[derive(Clone, Debug, Serialize)]
struct Said {
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<Timestamp>,
    count: i32,
    #[serde(rename = "type")]
    type_: String,
    reason: String,
    message: String,
}

/// Finds out all about an object. What cannot be found out is told in it.
pub(super) async fn one(cluster: &Cluster, kind: &Kind, name: &str) -> Result<One> {
    let object = kind.get(cluster, name).await?;
    let (row, conditions) = (Row::of(kind, &object), conditions(&object));
    let events = events(cluster, &object).await;
    let leader = leader(cluster, kind).await;
    let family = children::find(&cluster.client, kind, object).await?;
    let mut hidden = family.hidden;
    let mut told = |error: anyhow::Error| hidden.push(operator_core::error::chain(error.as_ref()));
    Ok(One {
        object: row,
        controller: kind.controller.name,
        leader: leader.map_err(&mut told).ok().flatten(),
        conditions,
        children: family.root.children,
        events: events.map_err(&mut told).unwrap_or_default(),
        hidden,
    })
}

/// Who leads the controller of a kind.
async fn leader(cluster: &Cluster, kind: &Kind) -> Result<Option<String>> {
    let installation = Installation::find(cluster).await?;
    let Some(namespace) = installation.lease_namespace() else { return Ok(None) };
    let name = lease_name(kind.controller.name);
    let lease = Api::<Lease>::namespaced(cluster.client.clone(), namespace).get_opt(&name).await;
    let lease = lease.with_context(|| format!("cannot read the Lease {namespace}/{name}"))?;
    Ok(lease.as_ref().and_then(holder))
}

/// The newest Events about an object, the oldest of them first.
async fn events(cluster: &Cluster, object: &DynamicObject) -> Result<Vec<Said>> {
    // Those about cluster-scoped objects are in the namespace default.
    let namespace = object.namespace().unwrap_or_else(|| "default".to_owned());
    let api = Api::<Event>::namespaced(cluster.client.clone(), &namespace);
    let params =
        ListParams::default().fields(&format!("involvedObject.uid={}", object.uid().unwrap_or_default()));
    let events = list(&api, &params)
        .await
        .with_context(|| format!("cannot list the Events of namespace {namespace}"))?;
    let mut said: Vec<_> = events.into_iter().map(said).collect();
    said.sort_by_key(|event| event.last);
    Ok(said.split_off(said.len().saturating_sub(EVENTS)))
}

fn said(event: Event) -> Said {
    let series = event.series.as_ref();
    let last = series
        .and_then(|series| series.last_observed_time.as_ref())
        .or(event.event_time.as_ref())
        .map(|time| time.0);
    Said {
        last: last.or_else(|| event.last_timestamp.as_ref().map(|time| time.0)),
        count: series.and_then(|series| series.count).or(event.count).unwrap_or(1),
        type_: event.type_.unwrap_or_default(),
        reason: event.reason.unwrap_or_default(),
        message: event.message.unwrap_or_default(),
    }
}

impl One {
    /// A screen of text.
    pub(super) fn text(&self, now: Timestamp) -> String {
        let Self { object, leader, controller, conditions, children, events, hidden } = self;
        let Readiness { ready, reason, .. } = &object.readiness;
        let led = leader.as_ref().map_or_else(|| "nobody that is known".to_owned(), Clone::clone);
        let below: String =
            children.iter().map(|child| tree::text_within(child, object.namespace.as_deref())).collect();
        let hidden = hidden.iter().map(|hidden| paint(QUIET, &format!("\nnot shown: {hidden}\n")));
        [
            format!("{} {}\n", paint(HEAD, &object.kind), paint(HEAD, &object.place())),
            format!("Ready: {} {reason}\n", status(if ready.is_empty() { "-" } else { ready })),
            format!("Age: {}   Controller: {controller}, led by {led}\n", object.age(now)),
            section("Conditions", &condition_table(conditions, now)),
            section("Children", &below),
            section("Events", &event_table(events, now)),
            hidden.collect(),
        ]
        .concat()
    }
}

fn section(title: &str, content: &str) -> String {
    let content = if content.is_empty() { "none\n" } else { content };
    format!("\n{}\n{content}", paint(HEAD, title))
}

fn condition_table(conditions: &[Condition], now: Timestamp) -> String {
    if conditions.is_empty() {
        return String::new();
    }
    let rows = conditions.iter().map(|condition| {
        let age = age(condition.last_transition_time.0, now);
        // Of Ready it is known which status is good news; of Progressing, say, it is not.
        let is_told = condition.type_ == READY;
        let status = if is_told { status(&condition.status) } else { condition.status.clone() };
        [condition.type_.clone(), status, condition.reason.clone(), age, condition.message.clone()]
    });
    table(["TYPE", "STATUS", "REASON", "AGE", "MESSAGE"], rows)
}

fn event_table(events: &[Said], now: Timestamp) -> String {
    if events.is_empty() {
        return String::new();
    }
    let rows = events.iter().map(|event| {
        let last = event.last.map(|last| age(last, now)).unwrap_or_default();
        let often = if event.count > 1 { format!("{last} (x{})", event.count) } else { last };
        [often, event.type_.clone(), event.reason.clone(), event.message.clone()]
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
    fn one_object_is_a_screen() {
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
        let one = One {
            object: Row::of(&kinds::find("podset").unwrap(), &object),
            controller: "podset",
            leader: Some("manager-1".to_owned()),
            conditions: conditions(&object),
            children: vec![child],
            events: vec![said(serde_json::from_value(event).unwrap())],
            hidden: Vec::new(),
        };
        insta::assert_snapshot!(plain(&one.text(now())));
    }
}
