//! The start of a manager that finds many objects, all as they should be.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::Path,
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use cluster::{Cluster, Component, Options, wait::eventually};
use futures::AsyncBufReadExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Resource,
    api::{Request, WatchParams},
};
use podset::PodSet;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    PATIENCE, figures,
    support::{asked, until_silent},
    world,
};
use crate::{
    process::{cpu, peak, resident},
    stage::{free_address, launch, prepare},
};

#[derive(Args)]
pub(super) struct Start {
    /// How many PodSets, of ten pods each, a starting manager finds
    #[arg(long, default_value_t = 1000)]
    found: usize,

    /// How often it is started
    #[arg(long, default_value_t = 5)]
    starts: usize,
}

/// How long it may take to make the world.
const POPULATE: Duration = Duration::from_mins(20);

/// What one start cost.
struct Cost {
    ready: Duration,
    peak: f64,
    settled: f64,
    requests: BTreeMap<String, usize>,
    writes: usize,
    told: Told,
}

/// What it costs the API server to tell all pods to anybody.
struct Told {
    processor: Duration,
    bytes: usize,
}

/// How the first event begins that is behind all objects that are there when a watch begins.
const BEHIND: &[u8] = br#"{"type":"BOOKMARK""#;

impl Start {
    pub(super) async fn run(&self, program: &Path) -> Result<()> {
        let cluster = Cluster::start(Options { nodes: world::NODES, ..Options::default() }).await?;
        prepare(&cluster).await?;
        self.populate(&cluster, program).await?;
        let mut costs = Vec::new();
        for _ in 0..self.starts.max(1) {
            costs.push(start(&cluster, program).await?);
        }
        self.print(&costs);
        cluster.stop()
    }

    /// Has a manager make all pods, and ends it.
    async fn populate(&self, cluster: &Cluster, program: &Path) -> Result<()> {
        println!("making {} PodSets of {} pods ...", self.found, world::REPLICAS);
        let running = launch(cluster, program, "0").await?;
        let client = cluster.client().await?;
        world::create_namespaces(&client, self.found).await?;
        world::create_all(&client, self.found, world::podset).await?;
        eventually("all pods to be ready", POPULATE, async || {
            let ready = world::count_ready::<PodSet>(&client).await?;
            Ok(if ready == self.found { Ok(()) } else { Err(ready) })
        })
        .await?;
        until_silent(cluster, Duration::from_secs(5)).await?;
        running.stop()
    }

    fn print(&self, costs: &[Cost]) {
        let objects = format!("{} PodSets and {} pods", self.found, self.found * 10);
        println!("{} starts beside {objects}:", costs.len());
        let sorted = |of: fn(&Cost) -> Duration| {
            let mut times: Vec<_> = costs.iter().map(of).collect();
            times.sort();
            times
        };
        let (ready, told) = (sorted(|cost| cost.ready), sorted(|cost| cost.told.processor));
        figures::print("start to ready, median", figures::percentile(&ready, 50), "ms");
        figures::print("start to ready, slowest", figures::percentile(&ready, 100), "ms");
        figures::print(
            "API server, processor to tell all pods, median",
            figures::percentile(&told, 50),
            "ms",
        );
        let most = |of: fn(&Cost) -> f64| costs.iter().map(of).fold(0.0, f64::max);
        figures::print("memory, peak, worst", most(|cost| cost.peak), "MiB");
        figures::print("memory, settled, worst", most(|cost| cost.settled), "MiB");
        println!("writes in all starts together: {}", costs.iter().map(|cost| cost.writes).sum::<usize>());
        for cost in costs.iter().take(1) {
            println!("bytes of the pods: {}", cost.told.bytes);
            println!("requests of a start: {:?}", cost.requests);
        }
    }
}

/// Starts a manager, waits until it says that it is ready, then until it is silent, and ends it.
async fn start(cluster: &Cluster, program: &Path) -> Result<Cost> {
    let probes = free_address()?;
    let mark = cluster.audit_mark()?;
    let began = Instant::now();
    let running = launch(cluster, program, &probes.to_string()).await?;
    let ready = until_ready(probes, began).await?;
    until_silent(cluster, Duration::from_secs(5)).await?;
    let (peak, settled) = (peak(running.pid())?, resident(running.pid())?);
    running.stop()?;
    let told = told(cluster).await?;
    // The log has a watch when it ends.
    let entries = asked(cluster, mark)?.entries;
    let mut requests = BTreeMap::new();
    for entry in &entries {
        *requests.entry(format!("{} {}", entry.verb, entry.resource)).or_insert(0) += 1;
    }
    let writes = entries.iter().filter(|entry| entry.is_write() && entry.resource != "leases").count();
    Ok(Cost { ready, peak, settled, requests, writes, told })
}

/// Opens a watch of all pods as the manager does, and reads until all are told that are there.
async fn told(cluster: &Cluster) -> Result<Told> {
    let client = cluster.client().await?;
    let server = cluster.record().pids.get(&Component::KubeApiserver).context("there is no API server")?;
    let all = Request::new(Pod::url_path(&(), None));
    let spent = cpu(*server)?;
    let watch = client.request_stream(all.watch(&WatchParams::default().initial_events(), "0")?).await?;
    let mut watch = pin!(watch);
    let (mut bytes, mut event) = (0, Vec::new());
    while !event.starts_with(BEHIND) {
        event.clear();
        let read = watch.read_until(b'\n', &mut event).await.context("cannot read the watch of pods")?;
        ensure!(read > 0, "the watch of pods has ended");
        bytes += read;
    }
    Ok(Told { processor: cpu(*server)?.saturating_sub(spent), bytes })
}

/// How long it took until `/readyz` answered 200.
async fn until_ready(probes: SocketAddr, began: Instant) -> Result<Duration> {
    let ready = async {
        while !is_ready_at(probes).await.unwrap_or_default() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        began.elapsed()
    };
    tokio::time::timeout(PATIENCE, ready).await.context("the manager did not become ready")
}

async fn is_ready_at(probes: SocketAddr) -> Result<bool> {
    let mut stream = TcpStream::connect(probes).await?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.starts_with("HTTP/1.1 200"))
}
