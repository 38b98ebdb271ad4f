//! One measurement of one contender: so many objects from nothing until all say that their pods are ready.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use cluster::{Cluster, wait::eventually};
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

use super::{
    super::{
        PATIENCE,
        figures::count,
        support::{besides_upkeep, counted},
        world::{self, Seen, has},
    },
    contender::{Contender, LABEL, Programs},
};
use crate::process::{cpu, peak, resident};

/// What passes after the last object is ready before the bill is made.
const SETTLE: Duration = Duration::from_secs(5);
const AT_ONCE: usize = 16;
/// The least number of objects that are to be ready each second.
const SLOWEST: f64 = 5.0;

/// What it took.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Cell {
    pub(super) contender: Contender,
    /// Objects, of ten pods each.
    pub(super) size: usize,
    /// Seconds from the first object to the last pod.
    pub(super) created: f64,
    /// Seconds from the first object until all of them say that their pods are ready.
    pub(super) ready: f64,
    /// Processor seconds of the contender.
    pub(super) processor: f64,
    /// Processor seconds of the API server and etcd meanwhile.
    pub(super) control_plane: f64,
    /// The most memory of the contender, in MiB.
    pub(super) peak: f64,
    /// Its memory in the end, in MiB.
    pub(super) settled: f64,
    /// Its requests, watches and leases left out.
    pub(super) requests: BTreeMap<String, usize>,
}

impl Cell {
    pub(super) async fn measure(
        cluster: &Cluster,
        programs: &Programs,
        contender: Contender,
        size: usize,
    ) -> Result<Self> {
        let client = cluster.client().await?;
        let mut running = contender.start(cluster, programs).await?;
        let pid = running.pid();
        // The first shows that it is at work; it has one more than the number of those that are measured.
        make(&client, contender, size..size + 1).await?;
        until_ready(&client, contender, 1).await.inspect_err(|_| eprintln!("{}", running.log_tail()))?;
        fs::write(format!("/proc/{pid}/clear_refs"), "5").context("cannot reset the most memory in use")?;

        let (mark, spent, spent_there) = (cluster.audit_mark()?, cpu(pid)?, control_plane(cluster)?);
        let (watches, watching) = oneshot::channel();
        let created = tokio::spawn(last_pod(client.clone(), (size + 1) * pods_each(), watches));
        watching.await.context("cannot watch the pods")?;
        let began = Instant::now();
        make(&client, contender, 0..size).await?;
        until_ready(&client, contender, size + 1).await?;
        let ready = began.elapsed();
        let created = created.await??.duration_since(began);
        tokio::time::sleep(SETTLE).await;
        running.ensure_running()?;
        let cell = Self {
            contender,
            size,
            created: created.as_secs_f64(),
            ready: ready.as_secs_f64(),
            processor: cpu(pid)?.saturating_sub(spent).as_secs_f64(),
            control_plane: control_plane(cluster)?.saturating_sub(spent_there).as_secs_f64(),
            peak: peak(pid)?,
            settled: resident(pid)?,
            requests: requests(cluster, mark, contender)?,
        };
        running.stop()?;
        Ok(cell)
    }
}

/// The pods of each object.
pub(super) fn pods_each() -> usize {
    usize::try_from(world::REPLICAS).unwrap_or_default()
}

async fn make(client: &Client, contender: Contender, numbers: std::ops::Range<usize>) -> Result<()> {
    let resource = contender.resource();
    let created = stream::iter(numbers).map(|number| {
        let api =
            Api::<DynamicObject>::namespaced_with(client.clone(), &world::namespace_of(number), &resource);
        async move {
            let object = serde_json::from_value(contender.object(number)?)?;
            api.create(&PostParams::default(), &object).await.context("cannot create an object").map(drop)
        }
    });
    created.buffer_unordered(AT_ONCE).try_collect().await
}

/// When so many pods had been made.
async fn last_pod(client: Client, count: usize, watches: oneshot::Sender<()>) -> Result<Instant> {
    let pods = Api::<PartialObjectMeta<Pod>>::all(client);
    let config = watcher::Config::default().labels(&format!("{}={}", LABEL.0, LABEL.1));
    let mut events = pin!(watcher(pods, config));
    let (mut seen, mut watches) = (HashSet::new(), Some(watches));
    while let Some(event) = events.try_next().await? {
        match event {
            watcher::Event::InitApply(pod) | watcher::Event::Apply(pod) => {
                seen.insert(pod.uid());
            }
            // Whoever asked may be gone.
            watcher::Event::InitDone => drop(watches.take().map(|watches| watches.send(()))),
            watcher::Event::Init | watcher::Event::Delete(_) => {}
        }
        if seen.len() == count {
            return Ok(Instant::now());
        }
    }
    bail!("the watch of pods has ended")
}

/// How long so many objects may take.
fn patience(size: usize) -> Duration {
    PATIENCE + Duration::from_secs_f64(count(size) / SLOWEST)
}

/// Waits until so many objects say that all their pods are ready.
async fn until_ready(client: &Client, contender: Contender, count: usize) -> Result<()> {
    let objects = Api::<Seen>::all_with(client.clone(), &contender.resource());
    let mut seen = pin!(watcher(objects, watcher::Config::default()).applied_objects());
    let mut ready = HashSet::new();
    let all_ready = async {
        while ready.len() < count {
            let object = seen.try_next().await?.context("the watch of objects has ended")?;
            if has(&object, |status| status.ready_replicas == world::REPLICAS) {
                ready.insert(object.uid());
            }
        }
        Ok(())
    };
    let waited = tokio::time::timeout(patience(count), all_ready).await;
    waited.with_context(|| format!("{}: not all of {count} objects are ready", contender.name()))?
}

/// The processor time of the API server and etcd.
fn control_plane(cluster: &Cluster) -> Result<Duration> {
    let pids = &cluster.record().pids;
    let of = [cluster::Component::KubeApiserver, cluster::Component::Etcd].into_iter();
    of.filter_map(|component| pids.get(&component)).map(|pid| cpu(*pid)).sum()
}

fn requests(
    cluster: &Cluster,
    mark: cluster::audit::Mark,
    contender: Contender,
) -> Result<BTreeMap<String, usize>> {
    Ok(counted(&besides_upkeep(cluster.audit_since(mark)?.by_user(&contender.user()))))
}

/// Takes away what a measurement has left.
pub(super) async fn clear(client: &Client, left: &Cell) -> Result<()> {
    let size = left.size;
    let resource: ApiResource = left.contender.resource();
    for number in (0..=size).step_by(world::PER_NAMESPACE) {
        let api =
            Api::<DynamicObject>::namespaced_with(client.clone(), &world::namespace_of(number), &resource);
        api.delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
    }
    let pods = Api::<PartialObjectMeta<Pod>>::all(client.clone());
    eventually("the pods to be gone", patience(size), async || {
        Ok(pods.list(&ListParams::default().limit(1)).await?.items.is_empty())
    })
    .await
}
