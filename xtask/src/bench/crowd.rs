//! Many objects of several kinds in one manager: the memory that they take, and how soon one that changes is seen to.

use std::{
    path::Path,
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use cluster::{Cluster, Options, wait::eventually};
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
use memcached::Memcached;
use namespaceplus::NamespacePlus;
use podset::PodSet;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    figures,
    support::{asked, besides_upkeep, counted, until_silent},
    world,
};
use crate::{
    process::{cpu, peak, resident},
    stage::{launch, prepare},
};

#[derive(Args)]
pub(super) struct Crowd {
    /// How many PodSets, of ten pods each, one manager has; as many Memcacheds, and half as many NamespacePlus
    #[arg(long, default_value_t = 1000)]
    crowd: usize,

    /// How many objects of each kind are changed, one after the other
    #[arg(long, default_value_t = 200)]
    changes: usize,
}

/// How long it may take to make the world.
const POPULATE: Duration = Duration::from_mins(20);
/// What passes without a change of any child before the next object is changed, so that each meets an idle cluster.
const PAUSE: Duration = Duration::from_millis(300);
/// What passes without any request before the manager counts as silent.
const SILENCE: Duration = Duration::from_secs(5);

impl Crowd {
    pub(super) async fn run(&self, program: &Path) -> Result<()> {
        let cluster = Cluster::start(Options { nodes: world::NODES, ..Options::default() }).await?;
        prepare(&cluster).await?;
        let running = launch(&cluster, program, "0").await?;
        let client = cluster.client().await?;
        let mark = cluster.audit_mark()?;
        self.populate(&client).await?;
        until_silent(&cluster, SILENCE).await?;
        println!("requests until all is ready: {:?}", counted(&besides_upkeep(asked(&cluster, mark)?)));
        figures::print("memory, peak", peak(running.pid())?, "MiB");
        figures::print("memory, settled", resident(running.pid())?, "MiB");

        let sets = |number| world::podset_name(number);
        let replicas = json!({ "spec": { "replicas": world::REPLICAS - 1 } });
        self.change::<PodSet, Pod>(&client, sets, &replicas, |pod, number| {
            pod.labels().get("app") == Some(&sets(number))
        })
        .await?;
        let size = json!({ "spec": { "size": 2 } });
        self.change::<Memcached, Deployment>(&client, cache_name, &size, |deployment, number| {
            deployment.name_any() == cache_name(number)
        })
        .await?;
        let quota = json!({ "spec": { "quota": { "pods": "20" } } });
        self.change::<NamespacePlus, ResourceQuota>(&client, space_name, &quota, |quota, number| {
            quota.namespace() == Some(space_name(number))
        })
        .await?;
        until_silent(&cluster, SILENCE).await?;

        let (mark, spent) = (cluster.audit_mark()?, cpu(running.pid())?);
        self.touch(&client).await?;
        until_silent(&cluster, SILENCE).await?;
        let spent =
            cpu(running.pid())?.saturating_sub(spent).as_secs_f64() * 1e6 / figures::count(self.crowd);
        figures::print("PodSet that is as it should be, looked at again", spent, "us of processor");
        let requests = besides_upkeep(asked(&cluster, mark)?).entries;
        println!("requests for {} such looks: {}", self.crowd, requests.len());
        running.stop()?;
        cluster.stop()
    }

    fn spaces(&self) -> usize {
        self.crowd / 2
    }

    async fn populate(&self, client: &Client) -> Result<()> {
        let (crowd, spaces) = (self.crowd, self.spaces());
        println!(
            "making {crowd} PodSets of {} pods, {crowd} Memcacheds, {spaces} NamespacePlus ...",
            world::REPLICAS
        );
        world::create_namespaces(client, crowd).await?;
        world::create_all(client, crowd, world::podset).await?;
        world::create_all(client, crowd, cache).await?;
        world::create_all(client, spaces, space).await?;
        eventually("everything to be ready", POPULATE, async || {
            let ready = [
                world::count_ready::<PodSet>(client).await?,
                world::count_ready::<Memcached>(client).await?,
                world::count_ready::<NamespacePlus>(client).await?,
            ];
            Ok(if ready == [crowd, crowd, spaces] { Ok(()) } else { Err(ready) })
        })
        .await
    }

    /// Changes one object after the other. Prints how long it took until one of its children, as a watch shows them, was
    /// made, changed or deleted, and for comparison, how long the API server alone took for the change.
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
        let (mut answers, mut times) = (Vec::new(), Vec::new());
        for number in 0..self.changes.min(self.spaces()) {
            while let Ok(event) = tokio::time::timeout(PAUSE, next(&mut events)).await {
                event?;
            }
            let objects = Api::<K>::namespaced(client.clone(), &world::namespace_of(number));
            let began = Instant::now();
            objects.patch(&name(number), &PatchParams::default(), &Patch::Merge(change)).await?;
            answers.push(began.elapsed());
            while !concerns(&next(&mut events).await?, |child| is_child(child, number)) {}
            times.push(began.elapsed());
            world::until_ready::<K>(client, &world::namespace_of(number), &name(number)).await?;
        }
        answers.sort();
        times.sort();
        let what = format!("change of one {} to its {}", K::kind(&()), C::kind(&()));
        figures::print(&format!("{what}, median"), figures::percentile(&times, 50), "ms");
        figures::print(&format!("{what}, 99th percentile"), figures::percentile(&times, 99), "ms");
        let answered = "  of which until the API server has answered the change, 99th percentile";
        figures::print(answered, figures::percentile(&answers, 99), "ms");
        Ok(())
    }

    /// Has each PodSet looked at, though nothing is to be done.
    async fn touch(&self, client: &Client) -> Result<()> {
        for number in 0..self.crowd {
            let sets = Api::<PodSet>::namespaced(client.clone(), &world::namespace_of(number));
            let label = json!({ "metadata": { "labels": { "touched": "true" } } });
            sets.patch(&world::podset_name(number), &PatchParams::default(), &Patch::Merge(label)).await?;
        }
        Ok(())
    }
}

async fn next<K>(
    events: &mut (impl TryStream<Ok = Event<K>, Error = watcher::Error> + Unpin),
) -> Result<Event<K>> {
    events.try_next().await?.context("the watch has ended")
}

fn concerns<K>(event: &Event<K>, is_child: impl Fn(&K) -> bool) -> bool {
    matches!(event, Event::Apply(object) | Event::Delete(object) if is_child(object))
}

fn cache(number: usize) -> Result<Memcached> {
    Ok(Memcached::new(&cache_name(number), serde_json::from_value(json!({}))?))
}

fn cache_name(number: usize) -> String {
    format!("cache-{number}")
}

fn space(number: usize) -> Result<NamespacePlus> {
    let spec = json!({ "quota": { "cpu": "4", "memory": "8Gi", "pods": "10" } });
    Ok(NamespacePlus::new(&space_name(number), serde_json::from_value(spec)?))
}

fn space_name(number: usize) -> String {
    format!("space-{number}")
}
