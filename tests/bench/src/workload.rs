//! Objects that the benchmarks create.

use anyhow::{Context, Result};
use cluster::wait::eventually;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::Condition};
use kube::{
    Api, Client, Resource,
    api::{ApiResource, ListParams, PostParams},
    core::Object,
};
use podset::{PodSet, PodSetSpec};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::json;

use crate::TIMEOUT;

/// Pods of each PodSet.
pub(crate) const REPLICAS: i32 = 10;
/// Objects of each namespace.
pub(crate) const PER_NAMESPACE: usize = 100;
/// Nodes of the cluster.
pub(crate) const NODES: usize = 12;
/// Concurrent requests that create objects.
const CONCURRENCY: usize = 16;

/// Returns the namespace of the object with this number.
pub(crate) fn namespace_of(number: usize) -> String {
    format!("many-{}", number / PER_NAMESPACE)
}

/// Creates the namespaces for a number of objects.
pub(crate) async fn create_namespaces(client: &Client, objects: usize) -> Result<()> {
    let namespaces = Api::<Namespace>::all(client.clone());
    for number in (0..objects).step_by(PER_NAMESPACE) {
        let namespace = serde_json::from_value(json!({ "metadata": { "name": namespace_of(number) } }))?;
        namespaces.create(&PostParams::default(), &namespace).await?;
    }
    Ok(())
}

/// Creates objects in their namespaces, several concurrently.
pub(crate) async fn create_all<K>(
    client: &Client,
    count: usize,
    object: impl Fn(usize) -> Result<K>,
) -> Result<()>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned,
{
    let created = stream::iter(0..count).map(|number| {
        let (api, object) = (Api::<K>::namespaced(client.clone(), &namespace_of(number)), object(number));
        async move {
            let failure = || format!("cannot create a {}", K::kind(&()));
            api.create(&PostParams::default(), &object?).await.with_context(failure).map(drop)
        }
    });
    created.buffer_unordered(CONCURRENCY).try_collect().await
}

/// Returns a PodSet whose Pods name their node, so that they need no scheduler.
pub(crate) fn podset(number: usize) -> Result<PodSet> {
    let template = json!({
        "metadata": { "labels": { "app.kubernetes.io/name": "many" } },
        "spec": {
            "nodeName": format!("node-{}", number % NODES),
            "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.10" }],
        },
    });
    let template = Some(serde_json::from_value(template)?);
    Ok(PodSet::new(
        &podset_name(number),
        PodSetSpec { replicas: REPLICAS, template, ..PodSetSpec::default() },
    ))
}

pub(crate) fn podset_name(number: usize) -> String {
    format!("set-{number}")
}

/// Returns the number of objects of a kind that are ready.
pub(crate) async fn count_ready<K: Resource<DynamicType = ()>>(client: &Client) -> Result<usize> {
    let all = Api::<ObjectStatus>::all_with(client.clone(), &ApiResource::erase::<K>(&()));
    Ok(all.list(&ListParams::default()).await?.iter().filter(|object| status_is(object, is_ready)).count())
}

/// Waits until an object is ready for its current generation.
pub(crate) async fn until_ready<K: Resource<DynamicType = ()>>(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<()> {
    let objects =
        Api::<ObjectStatus>::namespaced_with(client.clone(), namespace, &ApiResource::erase::<K>(&()));
    eventually(&format!("{} {namespace}/{name} to be ready", K::kind(&())), TIMEOUT, async || {
        let object = objects.get(name).await?;
        Ok(if status_is(&object, is_ready) { Ok(()) } else { Err(object) })
    })
    .await
}

/// Object without its spec, which would take long to parse.
pub(crate) type ObjectStatus = Object<NoSpec, Status>;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NoSpec {}

/// Fields of the statuses of all kinds. Fields that a kind does not have are zero.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status {
    observed_generation: Option<i64>,
    /// Ready Pods of a PodSet or ReplicaSet.
    pub(crate) ready_replicas: i32,
    /// Namespaces of a Tenant.
    pub(crate) size: usize,
    conditions: Vec<Condition>,
}

/// Returns whether the status describes the current generation and matches a predicate.
pub(crate) fn status_is(object: &ObjectStatus, predicate: impl Fn(&Status) -> bool) -> bool {
    object
        .status
        .as_ref()
        .is_some_and(|status| status.observed_generation == object.metadata.generation && predicate(status))
}

/// Returns whether the condition Ready is True.
pub(crate) fn is_ready(status: &Status) -> bool {
    status.conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
