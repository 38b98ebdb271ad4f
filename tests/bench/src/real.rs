//! The image of the manager in containers on real nodes.

use std::{
    fs::File,
    io::{self, Read},
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use capsule::Tenant;
use clap::Args;
use cluster::{Cluster, ContainerUsage, Options, real_nodes, usage::age};
use flate2::read::GzDecoder;
use futures::TryStreamExt;
use harness::hostile_reviews::{Sender, WebhookServer};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
    runtime::{
        WatchStreamExt,
        watcher::{self, watcher},
    },
};
use local_manager::in_cluster;
use manager::NAMESPACE;

use crate::{
    TIMEOUT, figures,
    requests::{manager_requests, wait_until_idle},
    reviews::{CONCURRENCY, PATH, WARM_UP, authority, review, sample, send},
};

#[derive(Args)]
pub(crate) struct Real {
    /// Duration of the period at rest in seconds, on real nodes
    #[arg(long, default_value_t = 120)]
    rest_seconds: u32,

    /// Number of Pods of the manager that are replaced, one after the other
    #[arg(long, default_value_t = 5)]
    replacements: usize,

    /// Number of admission reviews under load
    #[arg(long, default_value_t = 20_000)]
    load_reviews: usize,
}

/// Number of nodes.
const NODES: usize = 3;
/// Labels of the manager's Pods.
const SELECTOR: &str = "app.kubernetes.io/component=manager";
const SERVICE: &str = "ensemble-webhook";
const WEBHOOK_PORT: u16 = 9443;
/// Number of Tenants that are created in a dry run.
const DRY_RUNS: usize = 500;
/// Number of reviews that are sent one after the other.
const SEQUENTIAL: usize = 2000;
/// Time without a request after which the manager counts as idle.
const IDLE: Duration = Duration::from_secs(5);
const MIB: f64 = 1024.0 * 1024.0;

impl Real {
    pub(crate) async fn run(&self, image: impl FnOnce() -> Result<PathBuf>) -> Result<()> {
        real_nodes::check()?;
        let archive = image()?;
        print_image_size(&archive)?;
        let cluster = Cluster::start(Options { nodes: 0, real_nodes: NODES, ..Options::default() }).await?;
        in_cluster::install(&cluster, &archive).await?;
        let client = cluster.client().await?;
        let pods = Api::<Pod>::namespaced(client.clone(), NAMESPACE);
        self.start(&cluster, &pods).await?;
        wait_until_idle(&cluster, IDLE).await?;
        let replicas = replicas(&cluster, &pods).await?;
        self.rest(&cluster, &replicas).await?;
        self.reviews(&cluster, &client, &replicas).await?;
        cluster.stop()
    }

    /// Replaces Pods, and prints the time from the start of the process until the Pod is Ready.
    async fn start(&self, cluster: &Cluster, pods: &Api<Pod>) -> Result<()> {
        let mut times = Vec::new();
        for _ in 0..self.replacements {
            let (name, ready) = replace_one(pods).await?;
            let process = cluster.container_usage(NAMESPACE, &name).await?.pid()?;
            times.push(age(process)?.saturating_sub(ready.elapsed()));
            wait_for_replicas(cluster).await?;
        }
        times.sort();
        figures::print("start of the process until Ready, median", figures::percentile(&times, 50), "ms");
        figures::print("start of the process until Ready, slowest", figures::percentile(&times, 100), "ms");
        Ok(())
    }

    /// Prints the usage of each replica and the requests of both while nothing changes.
    async fn rest(&self, cluster: &Cluster, replicas: &[Replica]) -> Result<()> {
        let cpu = || replicas.iter().map(|replica| replica.usage.cpu()).sum::<Result<Duration>>();
        let (mark, spent, began) = (cluster.audit_mark()?, cpu()?, Instant::now());
        tokio::time::sleep(Duration::from_secs(self.rest_seconds.into())).await;
        let (spent, took) = (cpu()?.saturating_sub(spent).as_secs_f64(), began.elapsed().as_secs_f64());
        let requests = figures::count(manager_requests(cluster, mark)?.entries.len());
        for replica in replicas {
            figures::print(&format!("memory at rest, {}", replica.name), replica.usage.memory()?, "MiB");
        }
        figures::print("CPU at rest, both replicas", spent / took * 1000.0, "millicores");
        figures::print("requests at rest, both replicas, a minute", requests / took * 60.0, "requests");
        Ok(())
    }

    /// Prints the latency of reviews on several ways, and the usage of a replica under load.
    async fn reviews(&self, cluster: &Cluster, client: &Client, replicas: &[Replica]) -> Result<()> {
        let replica = replicas.first().context("the manager has no replica")?;
        let service = Api::<Service>::namespaced(client.clone(), NAMESPACE).get(SERVICE).await?;
        let address = service.spec.and_then(|spec| spec.cluster_ip).context("the Service has no address")?;
        let connect = async |address: SocketAddr| -> Result<Sender> {
            let network = cluster.node_network(&replica.node)?;
            let host = format!("{SERVICE}.{NAMESPACE}.svc");
            let server = WebhookServer::in_pods(network, address, &host, authority(cluster).await?)?;
            server.connect().await
        };
        let direct = connect(SocketAddr::new(replica.address.parse()?, WEBHOOK_PORT)).await?;
        let through_service = connect(SocketAddr::new(address.parse()?, 443)).await?;
        let review = review()?;
        for (way, sender) in [("Pod", &direct), ("Service", &through_service)] {
            send(sender, PATH, &review, WARM_UP, CONCURRENCY).await?;
            print_latency(
                &format!("review by the address of the {way}"),
                send(sender, PATH, &review, SEQUENTIAL, 1).await?,
            );
        }
        print_latency("dry run of a Tenant by the API server", dry_runs(client).await?);

        let (spent, began) = (replica.usage.cpu()?, Instant::now());
        send(&direct, PATH, &review, self.load_reviews, CONCURRENCY).await?;
        let (spent, took) = (replica.usage.cpu()?.saturating_sub(spent), began.elapsed());
        let count = figures::count(self.load_reviews);
        figures::print("reviews under load, per second", count / took.as_secs_f64(), "reviews");
        figures::print("CPU under load", spent.as_secs_f64() / took.as_secs_f64() * 1000.0, "millicores");
        figures::print("memory under load, peak", replica.usage.peak_memory()?, "MiB");
        Ok(())
    }
}

/// A Pod of the manager.
pub(crate) struct Replica {
    pub(crate) name: String,
    address: String,
    node: String,
    pub(crate) usage: ContainerUsage,
}

/// Returns the Pods of the manager.
pub(crate) async fn replicas(cluster: &Cluster, pods: &Api<Pod>) -> Result<Vec<Replica>> {
    let mut replicas = Vec::new();
    for pod in pods.list(&ListParams::default().labels(SELECTOR)).await? {
        let name = pod.name_any();
        let usage = cluster.container_usage(NAMESPACE, &name).await?;
        let address = pod.status.and_then(|status| status.pod_ip);
        let node = pod.spec.and_then(|spec| spec.node_name);
        let (address, node) = address.zip(node).with_context(|| format!("the Pod {name} does not run"))?;
        replicas.push(Replica { name, address, node, usage });
    }
    Ok(replicas)
}

/// Deletes a Pod, and waits until another is Ready. Returns its name, and when it was Ready.
async fn replace_one(pods: &Api<Pod>) -> Result<(String, Instant)> {
    let old = pods.list(&ListParams::default().labels(SELECTOR)).await?.items;
    let is_new = |pod: &Pod| old.iter().all(|old| old.uid() != pod.uid());
    let mut changes =
        pin!(watcher(pods.clone(), watcher::Config::default().labels(SELECTOR)).applied_objects());
    let deleted = old.first().context("the manager has no Pod")?.name_any();
    pods.delete(&deleted, &DeleteParams::default()).await?;
    let ready = async {
        while let Some(pod) = changes.try_next().await? {
            if is_new(&pod) && is_ready(&pod) {
                return Ok((pod.name_any(), Instant::now()));
            }
        }
        anyhow::bail!("the watch of Pods has ended")
    };
    tokio::time::timeout(TIMEOUT, ready).await.context("no new Pod of the manager is Ready")?
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Waits until both replicas are Ready and no other Pod exists.
async fn wait_for_replicas(cluster: &Cluster) -> Result<()> {
    let count = ["-n", NAMESPACE, "get", "pods", "-l", SELECTOR, "-o", "name"];
    cluster::wait::eventually("two Pods of the manager", TIMEOUT, async || {
        let pods = cluster.kubectl(&count).await?;
        Ok(if pods.lines().count() == 2 { Ok(()) } else { Err(pods) })
    })
    .await?;
    let timeout = format!("--timeout={}s", TIMEOUT.as_secs());
    let wait = ["-n", NAMESPACE, "rollout", "status", "deployment/ensemble-manager", &timeout];
    cluster.kubectl(&wait).await.map(drop)
}

/// Creates a Tenant repeatedly without storing it, and returns the duration of each request.
async fn dry_runs(client: &Client) -> Result<Vec<Duration>> {
    let (tenants, tenant) = (Api::<Tenant>::all(client.clone()), serde_json::from_value(sample()?)?);
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let mut times = Vec::new();
    for _ in 0..DRY_RUNS {
        let began = Instant::now();
        tenants.create(&dry_run, &tenant).await?;
        times.push(began.elapsed());
    }
    Ok(times)
}

fn print_latency(what: &str, mut times: Vec<Duration>) {
    times.sort();
    figures::print(&format!("{what}, median"), figures::percentile(&times, 50), "ms");
    figures::print(&format!("{what}, 99th percentile"), figures::percentile(&times, 99), "ms");
}

fn print_image_size(archive: &Path) -> Result<()> {
    let failure = || format!("cannot read the image {}", archive.display());
    let (compressed, unpacked) =
        File::open(archive).map_err(Into::into).and_then(layer_sizes).with_context(failure)?;
    figures::print("image, layers, compressed", compressed / MIB, "MiB");
    figures::print("image, layers, unpacked", unpacked / MIB, "MiB");
    Ok(())
}

/// Returns the number of bytes of the layers in an OCI archive, compressed and unpacked.
fn layer_sizes(archive: impl Read) -> Result<(f64, f64)> {
    const GZIP: [u8; 2] = [0x1f, 0x8b];
    let (mut compressed, mut unpacked) = (0, 0);
    for entry in tar::Archive::new(archive).entries()? {
        let mut blob = Vec::new();
        entry?.read_to_end(&mut blob)?;
        if blob.starts_with(&GZIP) {
            compressed += blob.len();
            unpacked += io::copy(&mut GzDecoder::new(blob.as_slice()), &mut io::sink())?;
        }
    }
    Ok((figures::count(compressed), figures::count(usize::try_from(unpacked)?)))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    #[test]
    fn layer_sizes_count_compressed_blobs_only() {
        let mut layer = GzEncoder::new(Vec::new(), Compression::best());
        layer.write_all(&[0; 10_000]).unwrap();
        let layer = layer.finish().unwrap();
        let mut archive = tar::Builder::new(Vec::new());
        for (name, blob) in [("index.json", &b"{}"[..]), ("blobs/sha256/a", &layer)] {
            let mut header = tar::Header::new_gnu();
            header.set_size(blob.len() as u64);
            archive.append_data(&mut header, name, blob).unwrap();
        }
        let archive = archive.into_inner().unwrap();
        let (compressed, unpacked) = layer_sizes(archive.as_slice()).unwrap();
        assert!((compressed - figures::count(layer.len())).abs() < f64::EPSILON);
        assert!((unpacked - 10_000.0).abs() < f64::EPSILON);
    }
}
