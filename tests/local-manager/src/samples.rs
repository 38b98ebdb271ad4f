//! Applies the samples, and waits until they are ready.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use cluster::Cluster;
use futures::future::try_join_all;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::wait::await_condition,
};
use serde_json::Value;
use tokio::time::timeout;

use crate::crds::definitions;

/// Object of the samples.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Kind, such as `PodSet`.
    pub kind: String,
    /// Namespace. `None` for a cluster-scoped object.
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
    resource: ApiResource,
    applied: Instant,
}

/// Sample that is ready.
pub struct Ready {
    /// The sample.
    pub sample: Sample,
    /// Time from the start of the apply until it was ready.
    pub took: Duration,
}

impl Sample {
    /// Returns `namespace/name`, or the name of a cluster-scoped object.
    pub fn key(&self) -> String {
        self.namespace
            .as_ref()
            .map_or_else(|| self.name.clone(), |namespace| format!("{namespace}/{}", self.name))
    }
}

/// Applies a folder of manifests, and returns its objects of Ensemble's kinds.
pub async fn apply(cluster: &Cluster, folder: &Path) -> Result<Vec<Sample>> {
    let folder = folder.display().to_string();
    let applied = Instant::now();
    let output = cluster.kubectl(&["apply", "--server-side", "--output=json", "-f", &folder]).await?;
    let output: Value =
        serde_json::from_str(&output).context("cannot parse the output of kubectl as JSON")?;
    let objects = match output.get("items").and_then(Value::as_array) {
        Some(objects) => objects.clone(),
        None => vec![output],
    };
    Ok(objects.into_iter().filter_map(|object| sample(&object, applied)).collect())
}

fn sample(object: &Value, applied: Instant) -> Option<Sample> {
    let kind = object.get("kind")?.as_str()?;
    let (group, version) = object.get("apiVersion")?.as_str()?.split_once('/')?;
    let definition =
        definitions().into_iter().find(|crd| crd.spec.group == group && crd.spec.names.kind == kind)?;
    let kind = GroupVersionKind::gvk(group, version, kind);
    let text = |field: &str| Some(object.get("metadata")?.get(field)?.as_str()?.to_owned());
    Some(Sample {
        namespace: text("namespace"),
        name: text("name")?,
        resource: ApiResource::from_gvk_with_plural(&kind, &definition.spec.names.plural),
        kind: kind.kind,
        applied,
    })
}

/// Waits until all samples are ready.
pub async fn wait(cluster: &Cluster, samples: Vec<Sample>, limit: Duration) -> Result<Vec<Ready>> {
    let client = cluster.client().await?;
    try_join_all(samples.into_iter().map(|sample| ready(&client, sample, limit))).await
}

async fn ready(client: &Client, sample: Sample, limit: Duration) -> Result<Ready> {
    let api: Api<DynamicObject> = match &sample.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &sample.resource),
        None => Api::all_with(client.clone(), &sample.resource),
    };
    let is_ready = |object: Option<&DynamicObject>| object.is_some_and(is_object_ready);
    let waited = timeout(limit, await_condition(api.clone(), &sample.name, is_ready)).await;
    let describe = || format!("{} {}", sample.kind, sample.key());
    let Ok(object) = waited else {
        let status = api.get(&sample.name).await.map(|object| object.data.get("status").cloned());
        bail!("{} was not ready after {limit:?}; status: {status:?}", describe());
    };
    object.with_context(|| format!("cannot watch {}", describe()))?;
    Ok(Ready { took: sample.applied.elapsed(), sample })
}

/// Returns whether the condition Ready is True for the current generation.
fn is_object_ready(object: &DynamicObject) -> bool {
    let status = object.data.get("status");
    let field = |name: &str| status.and_then(|status| status.get(name));
    let is_ready = |condition: &Value| {
        condition.get("type").and_then(Value::as_str) == Some("Ready")
            && condition.get("status").and_then(Value::as_str) == Some("True")
    };
    field("observedGeneration").and_then(Value::as_i64) == object.metadata.generation
        && field("conditions")
            .and_then(Value::as_array)
            .is_some_and(|conditions| conditions.iter().any(is_ready))
}
