//! `bench`: what the manager costs and how fast it is, in figures that it prints itself.

use std::{
    collections::BTreeMap,
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::Result;
use clap::Args;
use cluster::{Cluster, Options, wait::eventually};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use podset::{PodSet, PodSetSpec};

use crate::{
    demo::samples,
    manager,
    stage::{resident, start_manager, user},
    workspace,
};

/// Measures the manager, built as it is released.
#[derive(Args)]
pub(crate) struct Bench {
    /// How many PodSets to create, one after the other
    #[arg(long, default_value_t = 50)]
    podsets: usize,

    /// How long to listen for requests while nothing changes, in seconds
    #[arg(long, default_value_t = 300)]
    quiet: u64,
}

/// The pods of each PodSet.
const REPLICAS: usize = 3;
const PATIENCE: Duration = Duration::from_mins(5);

impl Bench {
    pub(crate) async fn run(&self) -> Result<()> {
        println!("building the manager ...");
        let program = manager::build(true)?;
        let cluster = Cluster::start(Options::default()).await?;
        let running = start_manager(&cluster, &program).await?;
        until_silent(&cluster, Duration::from_secs(5)).await?;
        println!("memory, all controllers idle           {:7.1} MiB", resident(running.pid())?);

        let mut times = create_podsets(cluster.client().await?, self.podsets).await?;
        times.sort();
        println!(
            "PodSet created to third pod created    {:7.1} ms (median of {})",
            milliseconds(&times, 50),
            times.len()
        );
        println!(
            "                                       {:7.1} ms (99th percentile)",
            milliseconds(&times, 99)
        );

        let samples = samples::apply(&cluster, &workspace().join("samples")).await?;
        samples::wait(&cluster, samples, PATIENCE).await?;
        // Longer than an autoscaler takes to make up its mind: one of the samples has one.
        until_silent(&cluster, Duration::from_mins(1)).await?;
        println!("memory, all samples ready              {:7.1} MiB", resident(running.pid())?);
        self.listen(&cluster).await?;
        running.stop()?;
        cluster.stop()
    }

    /// Counts what the manager asks for while nothing changes.
    async fn listen(&self, cluster: &Cluster) -> Result<()> {
        let mark = cluster.audit_mark()?;
        tokio::time::sleep(Duration::from_secs(self.quiet)).await;
        let mut counts = BTreeMap::new();
        for entry in cluster.audit_since(mark)?.by_user(&user()).entries {
            *counts.entry(entry.verb).or_insert(0) += 1;
        }
        println!("requests within {} s of silence, by verb: {counts:?}", self.quiet);
        Ok(())
    }
}

/// Waits until the manager has asked for nothing but watches for a while.
async fn until_silent(cluster: &Cluster, window: Duration) -> Result<()> {
    let mut since = Instant::now();
    let mut mark = cluster.audit_mark()?;
    eventually("the manager to fall silent", PATIENCE, async || {
        let asked = cluster.audit_since(mark)?.by_user(&user()).filter(|entry| entry.verb != "watch");
        if !asked.entries.is_empty() {
            mark = cluster.audit_mark()?;
            since = Instant::now();
        }
        Ok(since.elapsed() >= window)
    })
    .await
}

/// Creates PodSets one after the other; how long each took to have all its pods, as a watch sees it.
async fn create_podsets(client: Client, count: usize) -> Result<Vec<Duration>> {
    let sets = Api::<PodSet>::default_namespaced(client.clone());
    let pods = Api::<Pod>::default_namespaced(client);
    let mut created = pin!(watcher(pods.clone(), watcher::Config::default()).applied_objects().boxed());
    let mut times = Vec::new();
    for number in 0..count {
        let name = format!("bench-{number}");
        let set = PodSet::new(&name, PodSetSpec { replicas: i32::try_from(REPLICAS)?, template: None });
        let last = format!("{name}-pod-{REPLICAS}");
        let began = Instant::now();
        sets.create(&PostParams::default(), &set).await?;
        while let Some(pod) = created.try_next().await? {
            if pod.metadata.name.as_deref() == Some(&last) {
                break;
            }
        }
        times.push(began.elapsed());
        sets.delete(&name, &DeleteParams::default()).await?;
        eventually("the pods to go", PATIENCE, async || {
            Ok(pods.list(&ListParams::default().limit(1)).await?.items.is_empty())
        })
        .await?;
    }
    Ok(times)
}

/// A percentile of sorted times, in milliseconds.
fn milliseconds(times: &[Duration], percentile: usize) -> f64 {
    let place = (times.len() * percentile / 100).min(times.len().saturating_sub(1));
    times.get(place).map_or(0.0, |time| time.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_taken_from_sorted_times() {
        let times: Vec<_> = (1..=100).map(Duration::from_millis).collect();
        assert!((milliseconds(&times, 50) - 51.0).abs() < f64::EPSILON);
        assert!((milliseconds(&times, 99) - 100.0).abs() < f64::EPSILON);
        assert!(milliseconds(&[], 50).abs() < f64::EPSILON);
    }
}
