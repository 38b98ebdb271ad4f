//! Many objects, made for a measurement.

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

use super::PATIENCE;

/// The pods of each PodSet.
pub(super) const REPLICAS: i32 = 10;
/// The objects of each namespace.
pub(super) const PER_NAMESPACE: usize = 100;
/// The nodes that hold the pods.
pub(super) const NODES: usize = 12;
/// Requests in flight while the world is made.
const AT_ONCE: usize = 16;

/// The namespace of an object with this number.
pub(super) fn namespace_of(number: usize) -> String {
    format!("many-{}", number / PER_NAMESPACE)
}

/// Creates the namespaces of so many objects.
pub(super) async fn create_namespaces(client: &Client, objects: usize) -> Result<()> {
    let namespaces = Api::<Namespace>::all(client.clone());
    for number in (0..objects).step_by(PER_NAMESPACE) {
        let namespace = serde_json::from_value(json!({ "metadata": { "name": namespace_of(number) } }))?;
        namespaces.create(&PostParams::default(), &namespace).await?;
    }
    Ok(())
}

/// Creates so many objects, each in its namespace, some at once.
pub(super) async fn create_all<K>(
    client: &Client,
    count: usize,
    make: impl Fn(usize) -> Result<K>,
) -> Result<()>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned,
{
    let created = stream::iter(0..count).map(|number| {
        let (api, object) = (Api::<K>::namespaced(client.clone(), &namespace_of(number)), make(number));
        async move {
            let what = || format!("cannot create a {}", K::kind(&()));
            api.create(&PostParams::default(), &object?).await.with_context(what).map(drop)
        }
    });
    created.buffer_unordered(AT_ONCE).try_collect().await
}

/// A PodSet whose pods need no scheduler.
pub(super) fn podset(number: usize) -> Result<PodSet> {
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

pub(super) fn podset_name(number: usize) -> String {
    format!("set-{number}")
}

/// How many objects of a kind say that they are ready.
pub(super) async fn count_ready<K: Resource<DynamicType = ()>>(client: &Client) -> Result<usize> {
    let all = Api::<Seen>::all_with(client.clone(), &ApiResource::erase::<K>(&()));
    Ok(all.list(&ListParams::default()).await?.iter().filter(|object| has(object, is_ready)).count())
}

/// Waits until an object says that its present spec has come true.
pub(super) async fn until_ready<K: Resource<DynamicType = ()>>(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<()> {
    let objects = Api::<Seen>::namespaced_with(client.clone(), namespace, &ApiResource::erase::<K>(&()));
    eventually(&format!("{} {namespace}/{name} to be ready", K::kind(&())), PATIENCE, async || {
        let object = objects.get(name).await?;
        Ok(if has(&object, is_ready) { Ok(()) } else { Err(object) })
    })
    .await
}

/// An object without its spec, which takes long to parse.
pub(super) type Seen = Object<Nothing, Status>;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Nothing {}

/// What is looked at of the statuses of all kinds. What a kind does not have is zero.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    observed_generation: Option<i64>,
    /// The ready pods of a PodSet or ReplicaSet.
    pub(super) ready_replicas: i32,
    /// The namespaces of a Tenant.
    pub(super) size: usize,
    conditions: Vec<Condition>,
}

/// Whether the object says that its present spec was seen, and that it has what is asked.
pub(super) fn has(object: &Seen, asked: impl Fn(&Status) -> bool) -> bool {
    object
        .status
        .as_ref()
        .is_some_and(|status| status.observed_generation == object.metadata.generation && asked(status))
}

/// Whether the condition Ready holds.
pub(super) fn is_ready(status: &Status) -> bool {
    status.conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
