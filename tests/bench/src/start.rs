//! Startup of a manager with many existing objects, all of which match their spec.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::Path,
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use cluster::{
    Cluster, Component, Options, reserve_address,
    usage::{cpu, peak, resident},
    wait::eventually,
};
use futures::AsyncBufReadExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Resource,
    api::{Request, WatchParams},
};
use local_manager::launch::{launch, prepare};
use podset::PodSet;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    TIMEOUT, figures,
    requests::{manager_requests, wait_until_idle},
    workload,
};

#[derive(Args)]
pub(crate) struct Start {
    /// Number of existing PodSets of ten Pods
    #[arg(long, default_value_t = 1000)]
    start_objects: usize,

    /// Number of starts
    #[arg(long, default_value_t = 5)]
    starts: usize,
}

/// Timeout until all Pods are ready.
const POPULATE_TIMEOUT: Duration = Duration::from_mins(20);

/// Cost of one start.
struct Cost {
    ready: Duration,
    peak: f64,
    settled: f64,
    requests: BTreeMap<String, usize>,
    writes: usize,
    initial_events: InitialEvents,
}

/// Cost for the API server of sending all Pods to one watch.
struct InitialEvents {
    cpu: Duration,
    bytes: usize,
}

/// Annotation of the bookmark that follows the initial events of a watch.
const END: &[u8] = b"k8s.io/initial-events-end";
/// The format in which a manager reads Pods.
const FORMAT: &str = "application/vnd.kubernetes.protobuf";

impl Start {
    pub(crate) async fn run(&self, program: &Path) -> Result<()> {
        let cluster = Cluster::start(Options { nodes: workload::NODES, ..Options::default() }).await?;
        prepare(&cluster).await?;
        self.populate(&cluster, program).await?;
        let mut costs = Vec::new();
        for _ in 0..self.starts.max(1) {
            costs.push(start(&cluster, program).await?);
        }
        self.print(&costs);
        cluster.stop()
    }

    /// Runs a manager until all Pods exist, and stops it.
    async fn populate(&self, cluster: &Cluster, program: &Path) -> Result<()> {
        println!("creating {} PodSets of {} Pods ...", self.start_objects, workload::REPLICAS);
        let running = launch(cluster, program, "0").await?;
        let client = cluster.client().await?;
        workload::create_namespaces(&client, self.start_objects).await?;
        workload::create_all(&client, self.start_objects, workload::podset).await?;
        eventually("all Pods to be ready", POPULATE_TIMEOUT, async || {
            let ready = workload::count_ready::<PodSet>(&client).await?;
            Ok(if ready == self.start_objects { Ok(()) } else { Err(ready) })
        })
        .await?;
        wait_until_idle(cluster, Duration::from_secs(5)).await?;
        running.stop()
    }

    fn print(&self, costs: &[Cost]) {
        println!(
            "{} starts with {} PodSets and {} Pods:",
            costs.len(),
            self.start_objects,
            self.start_objects * 10
        );
        let sorted = |of: fn(&Cost) -> Duration| {
            let mut times: Vec<_> = costs.iter().map(of).collect();
            times.sort();
            times
        };
        let (ready, cpu) = (sorted(|cost| cost.ready), sorted(|cost| cost.initial_events.cpu));
        figures::print("start to ready, median", figures::percentile(&ready, 50), "ms");
        figures::print("start to ready, slowest", figures::percentile(&ready, 100), "ms");
        figures::print("API server, CPU time to send all Pods, median", figures::percentile(&cpu, 50), "ms");
        let worst = |of: fn(&Cost) -> f64| costs.iter().map(of).fold(0.0, f64::max);
        figures::print("memory, peak, worst", worst(|cost| cost.peak), "MiB");
        figures::print("memory, settled, worst", worst(|cost| cost.settled), "MiB");
        println!("writes in all starts: {}", costs.iter().map(|cost| cost.writes).sum::<usize>());
        for cost in costs.iter().take(1) {
            println!("bytes of all Pods: {}", cost.initial_events.bytes);
            println!("requests of the first start: {:?}", cost.requests);
        }
    }
}

/// Starts a manager, waits until it is ready and then idle, and stops it.
async fn start(cluster: &Cluster, program: &Path) -> Result<Cost> {
    let probes = reserve_address()?;
    let mark = cluster.audit_mark()?;
    let began = Instant::now();
    let running = launch(cluster, program, &probes.to_string()).await?;
    let ready = until_ready(probes, began).await?;
    wait_until_idle(cluster, Duration::from_secs(5)).await?;
    let (peak, settled) = (peak(running.pid())?, resident(running.pid())?);
    running.stop()?;
    let initial_events = initial_events(cluster).await?;
    // The audit log contains a watch after it ended.
    let entries = manager_requests(cluster, mark)?.entries;
    let mut requests = BTreeMap::new();
    for entry in &entries {
        *requests.entry(format!("{} {}", entry.verb, entry.resource)).or_insert(0) += 1;
    }
    let writes = entries.iter().filter(|entry| entry.is_write() && entry.resource != "leases").count();
    Ok(Cost { ready, peak, settled, requests, writes, initial_events })
}

/// Opens the same watch of all Pods as the manager, and reads its initial events.
async fn initial_events(cluster: &Cluster) -> Result<InitialEvents> {
    let client = cluster.client().await?;
    let server =
        cluster.record().pids.get(&Component::KubeApiserver).context("the cluster has no API server")?;
    let all = Request::new(Pod::url_path(&(), None));
    let spent = cpu(*server)?;
    let mut request = all.watch(&WatchParams::default().initial_events(), "0")?;
    request.headers_mut().insert("accept", FORMAT.parse()?);
    let mut watch = pin!(client.request_stream(request).await?);
    let (mut bytes, mut last) = (0, Vec::new());
    while !last.windows(END.len()).any(|part| part == END) {
        let part = watch.fill_buf().await.context("cannot read the watch of Pods")?;
        ensure!(!part.is_empty(), "the watch of Pods has ended");
        // The annotation can be in two parts.
        last.drain(..last.len().saturating_sub(END.len()));
        last.extend_from_slice(part);
        let read = part.len();
        watch.consume_unpin(read);
        bytes += read;
    }
    Ok(InitialEvents { cpu: cpu(*server)?.saturating_sub(spent), bytes })
}

/// Waits until `/readyz` returns 200, and returns the time since `began`.
async fn until_ready(probes: SocketAddr, began: Instant) -> Result<Duration> {
    let ready = async {
        while !is_ready_at(probes).await.unwrap_or_default() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        began.elapsed()
    };
    tokio::time::timeout(TIMEOUT, ready).await.context("the manager did not become ready")
}

async fn is_ready_at(probes: SocketAddr) -> Result<bool> {
    let mut stream = TcpStream::connect(probes).await?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    Ok(response.starts_with("HTTP/1.1 200"))
}
