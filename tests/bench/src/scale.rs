//! Many objects of several kinds in one manager: memory, and the time from a change to the
//! resulting write.

use std::{
    path::Path,
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use cluster::{
    Cluster, Options,
    usage::{cpu, peak, resident},
    wait::eventually,
};
use futures::{TryStream, TryStreamExt};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::Deployment,
        core::v1::{Pod, ResourceQuota},
    },
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
    core::PartialObjectMeta,
    runtime::watcher::{self, Event, watcher},
};
use local_manager::launch::{launch, prepare};
use memcached::Memcached;
use namespaceplus::NamespacePlus;
use podset::PodSet;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    figures,
    requests::{count_requests, manager_requests, wait_until_idle, without_background},
    workload,
};

#[derive(Args)]
pub(crate) struct Scale {
    /// Number of PodSets of ten Pods, and of Memcacheds; half as many NamespacePlus objects are
    /// created
    #[arg(long, default_value_t = 1000)]
    scale_objects: usize,

    /// Number of objects of each kind to change, one at a time
    #[arg(long, default_value_t = 200)]
    changes: usize,
}

/// Timeout until all objects are ready.
const POPULATE_TIMEOUT: Duration = Duration::from_mins(20);
/// Time without a change of any child before the next object is changed, so that the cluster is
/// idle.
const PAUSE: Duration = Duration::from_millis(300);
/// Time without a request after which the manager counts as idle.
const IDLE: Duration = Duration::from_secs(5);

impl Scale {
    pub(crate) async fn run(&self, program: &Path) -> Result<()> {
        let cluster = Cluster::start(Options { nodes: workload::NODES, ..Options::default() }).await?;
        prepare(&cluster).await?;
        let running = launch(&cluster, program, "0").await?;
        let client = cluster.client().await?;
        let mark = cluster.audit_mark()?;
        self.populate(&client).await?;
        wait_until_idle(&cluster, IDLE).await?;
        println!(
            "requests until all objects are ready: {:?}",
            count_requests(&without_background(manager_requests(&cluster, mark)?))
        );
        figures::print("memory, peak", peak(running.pid())?, "MiB");
        figures::print("memory, settled", resident(running.pid())?, "MiB");

        let sets = |number| workload::podset_name(number);
        let replicas = json!({ "spec": { "replicas": workload::REPLICAS - 1 } });
        self.change::<PodSet, Pod>(&client, sets, &replicas, |pod, number| {
            pod.labels().get("app") == Some(&sets(number))
        })
        .await?;
        let size = json!({ "spec": { "size": 2 } });
        self.change::<Memcached, Deployment>(&client, memcached_name, &size, |deployment, number| {
            deployment.name_any() == memcached_name(number)
        })
        .await?;
        let quota = json!({ "spec": { "quota": { "pods": "20" } } });
        self.change::<NamespacePlus, ResourceQuota>(&client, namespaceplus_name, &quota, |quota, number| {
            quota.namespace() == Some(namespaceplus_name(number))
        })
        .await?;
        wait_until_idle(&cluster, IDLE).await?;

        let (mark, spent) = (cluster.audit_mark()?, cpu(running.pid())?);
        self.relabel(&client).await?;
        wait_until_idle(&cluster, IDLE).await?;
        let spent = cpu(running.pid())?.saturating_sub(spent).as_secs_f64() * 1e6
            / figures::count(self.scale_objects);
        figures::print("reconcile of a PodSet without a difference", spent, "us of CPU time");
        let requests = without_background(manager_requests(&cluster, mark)?).entries;
        println!("requests of {} such reconciles: {}", self.scale_objects, requests.len());
        running.stop()?;
        cluster.stop()
    }

    /// Returns the number of NamespacePlus objects.
    fn namespaces(&self) -> usize {
        self.scale_objects / 2
    }

    async fn populate(&self, client: &Client) -> Result<()> {
        let (objects, namespaces) = (self.scale_objects, self.namespaces());
        println!(
            "creating {objects} PodSets of {} Pods, {objects} Memcacheds, {namespaces} NamespacePlus objects ...",
            workload::REPLICAS
        );
        workload::create_namespaces(client, objects).await?;
        workload::create_all(client, objects, workload::podset).await?;
        workload::create_all(client, objects, memcached).await?;
        workload::create_all(client, namespaces, namespaceplus).await?;
        eventually("all objects to be ready", POPULATE_TIMEOUT, async || {
            let ready = [
                workload::count_ready::<PodSet>(client).await?,
                workload::count_ready::<Memcached>(client).await?,
                workload::count_ready::<NamespacePlus>(client).await?,
            ];
            Ok(if ready == [objects, objects, namespaces] { Ok(()) } else { Err(ready) })
        })
        .await
    }

    /// Changes one object at a time, and prints the times until a watch reports a change of its
    /// child.
    ///
    /// For comparison, also prints the time in which the API server answered the change.
    async fn change<K, C>(
        &self,
        client: &Client,
        name: impl Fn(usize) -> String,
        change: &Value,
        is_child: impl Fn(&PartialObjectMeta<C>, usize) -> bool,
    ) -> Result<()>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
        C: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned
            + Send
            + 'static,
    {
        let children = Api::<PartialObjectMeta<C>>::all(client.clone());
        let mut events = pin!(watcher(children, watcher::Config::default()));
        while !matches!(next(&mut events).await?, Event::InitDone) {}
        let (mut responses, mut times) = (Vec::new(), Vec::new());
        for number in 0..self.changes.min(self.namespaces()) {
            while let Ok(event) = tokio::time::timeout(PAUSE, next(&mut events)).await {
                event?;
            }
            let objects = Api::<K>::namespaced(client.clone(), &workload::namespace_of(number));
            let began = Instant::now();
            objects.patch(&name(number), &PatchParams::default(), &Patch::Merge(change)).await?;
            responses.push(began.elapsed());
            while !is_change_of(&next(&mut events).await?, |child| is_child(child, number)) {}
            times.push(began.elapsed());
            workload::until_ready::<K>(client, &workload::namespace_of(number), &name(number)).await?;
        }
        responses.sort();
        times.sort();
        let what = format!("change of one {} to its {}", K::kind(&()), C::kind(&()));
        figures::print(&format!("{what}, median"), figures::percentile(&times, 50), "ms");
        figures::print(&format!("{what}, 99th percentile"), figures::percentile(&times, 99), "ms");
        let response = "  of which until the response to the change, 99th percentile";
        figures::print(response, figures::percentile(&responses, 99), "ms");
        Ok(())
    }

    /// Changes the labels of each PodSet, which causes a reconcile without a difference.
    async fn relabel(&self, client: &Client) -> Result<()> {
        for number in 0..self.scale_objects {
            let sets = Api::<PodSet>::namespaced(client.clone(), &workload::namespace_of(number));
            let label = json!({ "metadata": { "labels": { "changed": "true" } } });
            sets.patch(&workload::podset_name(number), &PatchParams::default(), &Patch::Merge(label)).await?;
        }
        Ok(())
    }
}

async fn next<K>(
    events: &mut (impl TryStream<Ok = Event<K>, Error = watcher::Error> + Unpin),
) -> Result<Event<K>> {
    events.try_next().await?.context("the watch has ended")
}

fn is_change_of<K>(event: &Event<K>, is_child: impl Fn(&K) -> bool) -> bool {
    matches!(event, Event::Apply(object) | Event::Delete(object) if is_child(object))
}

fn memcached(number: usize) -> Result<Memcached> {
    Ok(Memcached::new(&memcached_name(number), serde_json::from_value(json!({}))?))
}

fn memcached_name(number: usize) -> String {
    format!("cache-{number}")
}

fn namespaceplus(number: usize) -> Result<NamespacePlus> {
    let spec = json!({ "quota": { "cpu": "4", "memory": "8Gi", "pods": "10" } });
    Ok(NamespacePlus::new(&namespaceplus_name(number), serde_json::from_value(spec)?))
}

fn namespaceplus_name(number: usize) -> String {
    format!("namespace-{number}")
}
