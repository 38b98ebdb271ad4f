//! `status`: all objects in a table, or one object in detail.

mod detail;

use anyhow::Result;
use jiff::Timestamp;
use kube::{ResourceExt, api::DynamicObject};
use serde::Serialize;

use self::detail::ObjectStatus;
use crate::{
    age::age,
    cluster::Cluster,
    flags::Status,
    kinds::{self, Kind, list_all},
    object::{Readiness, creation_time, readiness},
    output::{ExitStatus, print, status, table},
};

/// Prints all objects, or one.
pub(crate) async fn run(cluster: &Cluster, flags: &Status) -> Result<ExitStatus> {
    let Some(kind) = &flags.kind else { return show_all(cluster, flags, kinds::all()).await };
    if flags.name.is_none() && !kind.contains('/') {
        return show_all(cluster, flags, &[kinds::find(kind)?]).await;
    }
    let (kind, name) = kinds::find_object(kind, flags.name.as_deref())?;
    let status = ObjectStatus::get(cluster, &kind, &name).await?;
    print(flags.output.output, &status, || status.text(cluster.now()))?;
    Ok(ExitStatus::Success)
}

/// Row of the table.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) readiness: Readiness,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) created: Option<Timestamp>,
}

/// Table in JSON.
#[derive(Serialize)]
struct Rows {
    objects: Vec<Row>,
}

impl Row {
    pub(crate) fn of(kind: &Kind, object: &DynamicObject) -> Self {
        Self {
            kind: kind.name().to_owned(),
            namespace: object.namespace(),
            name: object.name_any(),
            readiness: readiness(object, kind.has_controller()),
            created: creation_time(object),
        }
    }

    /// Returns the key of the object: the name, with the namespace if it has one.
    fn key(&self) -> String {
        self.namespace
            .as_ref()
            .map_or_else(|| self.name.clone(), |namespace| format!("{namespace}/{}", self.name))
    }

    fn age(&self, now: Timestamp) -> String {
        self.created.map(|created| age(created, now)).unwrap_or_default()
    }
}

async fn show_all(cluster: &Cluster, flags: &Status, kinds: &[Kind]) -> Result<ExitStatus> {
    let namespace = (!flags.all_namespaces).then(|| cluster.namespace());
    let objects = list_all(cluster, kinds, namespace).await?;
    let mut rows: Vec<_> = objects.iter().map(|(kind, object)| Row::of(kind, object)).collect();
    rows.sort_by(|a, b| (&a.kind, &a.namespace, &a.name).cmp(&(&b.kind, &b.namespace, &b.name)));
    let rows = Rows { objects: rows };
    let scope =
        namespace.map_or_else(|| "any namespace".to_owned(), |namespace| format!("namespace {namespace}"));
    print(flags.output.output, &rows, || match rows.objects.as_slice() {
        [] => format!("no objects of Ensemble found in {scope}\n"),
        rows => table_text(rows, cluster.now()),
    })?;
    Ok(ExitStatus::Success)
}

/// Formats the table.
pub(crate) fn table_text(rows: &[Row], now: Timestamp) -> String {
    let cells = rows.iter().map(|row| {
        let Readiness { ready, reason, message, .. } = &row.readiness;
        // The message of an object that is Ready is omitted.
        let message = if ready == "True" { "" } else { message };
        [row.kind.clone(), row.key(), status(ready), reason.clone(), row.age(now), message.to_owned()]
    });
    table(["KIND", "NAME", "READY", "REASON", "AGE", "MESSAGE"], cells)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{output::plain, testing};

    pub(super) fn now() -> Timestamp {
        "2026-01-01T01:00:00Z".parse().unwrap()
    }

    pub(super) fn object(name: &str, status: &str) -> DynamicObject {
        testing::object(json!({
            "metadata": { "name": name, "namespace": "shop", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1 },
            "status": { "conditions": [{
                "type": "Ready", "status": status, "reason": "Counted", "message": "2 of 3 Pods are ready",
                "lastTransitionTime": "2026-01-01T00:59:00Z", "observedGeneration": 1,
            }] },
        }))
    }

    #[test]
    fn formats_objects_as_table_and_json() {
        let kind = kinds::find("podset").unwrap();
        let rows = [Row::of(&kind, &object("a", "True")), Row::of(&kind, &object("web", "False"))];
        insta::assert_snapshot!(plain(&table_text(&rows, now())));
        insta::assert_snapshot!(serde_json::to_string_pretty(&rows[1]).unwrap());
    }
}
