//! Reaction to single objects, and what is spent while nothing changes.

use std::{
    path::Path,
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

use super::{
    PATIENCE, figures,
    support::{asked, counted, until_silent},
};
use crate::{
    demo::samples,
    process::{cpu, resident},
    stage::start_manager,
    workspace,
};

#[derive(Args)]
pub(super) struct Rest {
    /// How many PodSets to create, one after the other
    #[arg(long, default_value_t = 50)]
    podsets: usize,

    /// How long to listen for requests while nothing changes, in seconds
    #[arg(long, default_value_t = 300)]
    quiet: u64,
}

/// The pods of each PodSet.
const REPLICAS: usize = 3;

impl Rest {
    pub(super) async fn run(&self, program: &Path) -> Result<()> {
        let cluster = Cluster::start(Options::default()).await?;
        let running = start_manager(&cluster, program).await?;
        until_silent(&cluster, Duration::from_secs(5)).await?;
        figures::print("memory, all controllers idle", resident(running.pid())?, "MiB");

        let mut times = create_podsets(cluster.client().await?, self.podsets).await?;
        times.sort();
        let created = "PodSet created to third pod created";
        figures::print(
            &format!("{created}, median of {}", times.len()),
            figures::percentile(&times, 50),
            "ms",
        );
        figures::print(&format!("{created}, 99th percentile"), figures::percentile(&times, 99), "ms");

        let samples = samples::apply(&cluster, &workspace().join("samples")).await?;
        samples::wait(&cluster, samples, PATIENCE).await?;
        // Longer than an autoscaler takes to make up its mind: one of the samples has one.
        until_silent(&cluster, Duration::from_mins(1)).await?;
        figures::print("memory, all samples ready", resident(running.pid())?, "MiB");
        self.listen(&cluster, running.pid()).await?;
        running.stop()?;
        cluster.stop()
    }

    /// What the manager spends and asks for while nothing changes.
    async fn listen(&self, cluster: &Cluster, manager: u32) -> Result<()> {
        let (mark, spent, began) = (cluster.audit_mark()?, cpu(manager)?, Instant::now());
        tokio::time::sleep(Duration::from_secs(self.quiet)).await;
        let millicores =
            cpu(manager)?.saturating_sub(spent).as_secs_f64() / began.elapsed().as_secs_f64() * 1000.0;
        figures::print(&format!("processor, {} s of silence", self.quiet), millicores, "millicores");
        println!("requests within {} s of silence: {:?}", self.quiet, counted(&asked(cluster, mark)?));
        Ok(())
    }
}

/// Creates PodSets one after the other; how long each took to have all its pods, as a watch sees it.
async fn create_podsets(client: Client, count: usize) -> Result<Vec<Duration>> {
    let sets = Api::<PodSet>::default_namespaced(client.clone());
    let pods = Api::<Pod>::default_namespaced(client);
    let mut created = pin!(watcher(pods.clone(), watcher::Config::default()).applied_objects().boxed());
    let mut times = Vec::new();
    for number in 0..count {
        let name = format!("bench-{number}");
        let set =
            PodSet::new(&name, PodSetSpec { replicas: i32::try_from(REPLICAS)?, ..PodSetSpec::default() });
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
