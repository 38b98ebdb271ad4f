//! One measurement of one controller: it creates objects and waits until all their Pods are ready.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use cluster::{
    Cluster,
    usage::{cpu, peak, resident},
    wait::eventually,
};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, PostParams},
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt,
        watcher::{self, watcher},
    },
};
use serde::Serialize;
use tokio::sync::oneshot;

use super::controller::{Controller, LABEL, Programs};
use crate::{
    TIMEOUT,
    figures::count,
    requests::{count_requests, without_background},
    workload::{self, ObjectStatus, status_is},
};

/// Time between the readiness of the last object and the end of the measurement.
const SETTLE: Duration = Duration::from_secs(5);
/// Concurrent requests that create objects.
const CONCURRENCY: usize = 16;
/// Minimum rate at which objects become ready, per second.
const MIN_RATE: f64 = 5.0;

/// Result of a measurement.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Measurement {
    pub(super) controller: Controller,
    /// Number of objects of ten Pods.
    pub(super) size: usize,
    /// Seconds from the first object to the last Pod.
    pub(super) created: f64,
    /// Seconds from the first object until the Pods of all objects are ready.
    pub(super) ready: f64,
    /// CPU seconds of the controller.
    pub(super) cpu: f64,
    /// CPU seconds of the API server and etcd.
    pub(super) control_plane: f64,
    /// Peak memory of the controller in MiB.
    pub(super) peak: f64,
    /// Memory of the controller at the end in MiB.
    pub(super) settled: f64,
    /// Requests of the controller without watches and Leases.
    pub(super) requests: BTreeMap<String, usize>,
}

impl Measurement {
    pub(super) async fn measure(
        cluster: &Cluster,
        programs: &Programs,
        controller: Controller,
        size: usize,
    ) -> Result<Self> {
        let client = cluster.client().await?;
        let mut running = controller.start(cluster, programs).await?;
        let pid = running.pid();
        // One more object than is measured: when it is ready, the controller has started.
        create_objects(&client, controller, size..size + 1).await?;
        until_ready(&client, controller, 1).await.inspect_err(|_| eprintln!("{}", running.log_tail()))?;
        fs::write(format!("/proc/{pid}/clear_refs"), "5")
            .context("cannot reset the peak memory of the controller")?;

        let (mark, spent, control_plane_spent) = (cluster.audit_mark()?, cpu(pid)?, control_plane(cluster)?);
        let (watch_ready, watching) = oneshot::channel();
        let created = tokio::spawn(last_pod(client.clone(), (size + 1) * pods_per_object(), watch_ready));
        watching.await.context("cannot watch Pods")?;
        let began = Instant::now();
        create_objects(&client, controller, 0..size).await?;
        until_ready(&client, controller, size + 1).await?;
        let ready = began.elapsed();
        let created = created.await??.duration_since(began);
        tokio::time::sleep(SETTLE).await;
        running.ensure_running()?;
        let measurement = Self {
            controller,
            size,
            created: created.as_secs_f64(),
            ready: ready.as_secs_f64(),
            cpu: cpu(pid)?.saturating_sub(spent).as_secs_f64(),
            control_plane: control_plane(cluster)?.saturating_sub(control_plane_spent).as_secs_f64(),
            peak: peak(pid)?,
            settled: resident(pid)?,
            requests: requests(cluster, mark, controller)?,
        };
        running.stop()?;
        Ok(measurement)
    }
}

/// Returns the number of Pods of each object.
pub(super) fn pods_per_object() -> usize {
    usize::try_from(workload::REPLICAS).unwrap_or_default()
}

async fn create_objects(
    client: &Client,
    controller: Controller,
    numbers: std::ops::Range<usize>,
) -> Result<()> {
    let resource = controller.resource();
    let created = stream::iter(numbers).map(|number| {
        let api =
            Api::<DynamicObject>::namespaced_with(client.clone(), &workload::namespace_of(number), &resource);
        async move {
            let object = serde_json::from_value(controller.object(number)?)?;
            api.create(&PostParams::default(), &object).await.context("cannot create an object").map(drop)
        }
    });
    created.buffer_unordered(CONCURRENCY).try_collect().await
}

/// Waits until a number of Pods were created, and returns the time of the last one.
///
/// Sends on `watch_ready` when the watch has started.
async fn last_pod(client: Client, count: usize, watch_ready: oneshot::Sender<()>) -> Result<Instant> {
    let pods = Api::<PartialObjectMeta<Pod>>::all(client);
    let config = watcher::Config::default().labels(&format!("{}={}", LABEL.0, LABEL.1));
    let mut events = pin!(watcher(pods, config));
    let (mut seen, mut watch_ready) = (HashSet::new(), Some(watch_ready));
    while let Some(event) = events.try_next().await? {
        match event {
            watcher::Event::InitApply(pod) | watcher::Event::Apply(pod) => {
                seen.insert(pod.uid());
            }
            // The receiver may be dropped already.
            watcher::Event::InitDone => drop(watch_ready.take().map(|ready| ready.send(()))),
            watcher::Event::Init | watcher::Event::Delete(_) => {}
        }
        if seen.len() == count {
            return Ok(Instant::now());
        }
    }
    bail!("the watch of Pods has ended")
}

/// Returns the timeout for a number of objects.
fn timeout(size: usize) -> Duration {
    TIMEOUT + Duration::from_secs_f64(count(size) / MIN_RATE)
}

/// Waits until all Pods of a number of objects are ready.
async fn until_ready(client: &Client, controller: Controller, count: usize) -> Result<()> {
    let objects = Api::<ObjectStatus>::all_with(client.clone(), &controller.resource());
    let mut applied = pin!(watcher(objects, watcher::Config::default()).applied_objects());
    let mut ready = HashSet::new();
    let all_ready = async {
        while ready.len() < count {
            let object = applied.try_next().await?.context("the watch of objects has ended")?;
            if status_is(&object, |status| status.ready_replicas == workload::REPLICAS) {
                ready.insert(object.uid());
            }
        }
        Ok(())
    };
    let waited = tokio::time::timeout(timeout(count), all_ready).await;
    waited.with_context(|| format!("{}: not all of {count} objects are ready", controller.name()))?
}

/// Returns the CPU time of the API server and etcd.
fn control_plane(cluster: &Cluster) -> Result<Duration> {
    let pids = &cluster.record().pids;
    let of = [cluster::Component::KubeApiserver, cluster::Component::Etcd].into_iter();
    of.filter_map(|component| pids.get(&component)).map(|pid| cpu(*pid)).sum()
}

fn requests(
    cluster: &Cluster,
    mark: cluster::audit::Mark,
    controller: Controller,
) -> Result<BTreeMap<String, usize>> {
    Ok(count_requests(&without_background(cluster.audit_since(mark)?.by_user(&controller.user()))))
}

/// Deletes the objects of a measurement.
pub(super) async fn delete_objects(client: &Client, previous: &Measurement) -> Result<()> {
    let size = previous.size;
    let resource: ApiResource = previous.controller.resource();
    for number in (0..=size).step_by(workload::PER_NAMESPACE) {
        let api =
            Api::<DynamicObject>::namespaced_with(client.clone(), &workload::namespace_of(number), &resource);
        api.delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
    }
    let pods = Api::<PartialObjectMeta<Pod>>::all(client.clone());
    eventually("the Pods to be deleted", timeout(size), async || {
        Ok(pods.list(&ListParams::default().limit(1)).await?.items.is_empty())
    })
    .await
}
