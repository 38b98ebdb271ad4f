//! The demo on real nodes: the image of the manager, and containers.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use cluster::{Cluster, Options, Progress, program::workspace, real_nodes, wait::eventually};
use local_manager::{
    in_cluster,
    proxy::{LocalProxy, deploy_proxy, forward_to_proxy},
    samples,
};
use manager::NAMESPACE;
use operator_runtime::cleanup::manager_selector;

use super::{Demo, TIMEOUT, postgres, proxy, table, tenant, wait_for_interrupt};
use crate::image;

/// Number of nodes.
const NODES: usize = 3;
/// Pod with clients.
const CLIENT: &str = "client";
/// Stores a value in one instance of the sample cache, and reads it.
const SET_AND_GET: &str = r"
server=$(drill memcached-sample.default.svc.cluster.local | grep -oE '10\.244\.[0-9]+\.[0-9]+' | head -1)
printf 'set greeting 0 0 5\r\nhello\r\nget greeting\r\nquit\r\n' | nc -w 5 $server 11211";
/// What memcached answers.
const STORED: &str = "STORED\r\nVALUE greeting 0 5\r\nhello\r\nEND\r\n";

/// Runs the demo on real nodes.
pub(super) async fn run(demo: &Demo) -> Result<()> {
    real_nodes::check()?;
    let archive = archive(demo)?;
    // Builds what is missing first, so that the printed time does not include it.
    let locator = demo.kubernetes.locator()?;
    cluster::prepare_real_nodes(&locator, &Progress::stderr())?;
    let began = Instant::now();
    let options = Options { nodes: 0, real_nodes: NODES, locator: Some(locator), ..Options::default() };
    let cluster = Cluster::start(options).await?;
    let show = async {
        let installing = Instant::now();
        in_cluster::install(&cluster, &archive).await?;
        let installed = installing.elapsed();
        println!("the manager runs in 2 Pods, {:.1} s after `kubectl apply`", installed.as_secs_f64());
        let (forwarded, kubeconfig) = show(&cluster, began).await?;
        if !demo.exit {
            wait_for_interrupt(&cluster, &kubeconfig).await?;
        }
        forwarded.process.stop()
    };
    tokio::select! {
        result = show => result?,
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    println!("stopping ...");
    cluster.stop()
}

/// Returns the archive with the image of the manager.
fn archive(demo: &Demo) -> Result<PathBuf> {
    if let Some(archive) = &demo.image {
        ensure!(
            archive.is_file(),
            "cannot find the image {}; write one with `cargo xtask image`",
            archive.display()
        );
        return Ok(archive.clone());
    }
    println!("building the image of the manager ...");
    image::build_for_host(if demo.release { image::Profile::Release } else { image::Profile::Test })
}

/// Shows what the controllers do. Returns the proxy, which is forwarded to this machine, and the kubeconfig of the
/// owner of a Tenant.
async fn show(cluster: &Cluster, began: Instant) -> Result<(LocalProxy, PathBuf)> {
    let samples = samples::apply(cluster, &workspace().join("samples")).await?;
    let ready = samples::wait(cluster, samples, TIMEOUT).await.context("samples are not ready")?;
    let all_ready = began.elapsed();
    let tenant = tenant::add_namespace(cluster, TIMEOUT).await?;
    let answer = set_and_get(cluster).await?;
    let forwarded = forward_to_proxy(cluster, deploy_proxy(cluster).await?)?;
    let (kubeconfig, seen) = proxy::namespaces_of_owner(cluster, &forwarded, TIMEOUT).await?;
    table::print(cluster, &ready).await?;
    println!("\n{tenant}");
    println!("memcached-sample stored and returned a value: {}", answer.replace("\r\n", " "));
    println!("all samples ready {:.1} s after the start of the cluster", all_ready.as_secs_f64());
    println!("{}", postgres::show(cluster, TIMEOUT).await?);
    println!("{}", proxy::sentence(&seen));
    println!("\nusage of the manager's containers:\n{}", usage(cluster, TIMEOUT).await?);
    Ok((forwarded, kubeconfig))
}

async fn set_and_get(cluster: &Cluster) -> Result<String> {
    let image = "--image=localhost/client:1";
    cluster.kubectl(&["run", CLIENT, image, "--restart=Never", "--", "sleep", "infinity"]).await?;
    cluster.kubectl(&["wait", "--for=condition=Ready", "pod/client", "--timeout=60s"]).await?;
    let answer = cluster.kubectl(&["exec", CLIENT, "--", "sh", "-c", SET_AND_GET]).await?;
    ensure!(answer == STORED, "memcached-sample does not store a value; it answered {answer:?}");
    Ok(answer)
}

/// Returns the usage that the kubelets read from the cgroups of the containers. The metrics server
/// has it after some seconds.
async fn usage(cluster: &Cluster, timeout: Duration) -> Result<String> {
    eventually("the usage of the manager's Pods", timeout, async || {
        let selector = manager_selector();
        let usage =
            cluster.kubectl(&["--namespace", NAMESPACE, "top", "pods", "--selector", &selector]).await?;
        Ok(if usage.lines().count() == 3 { Ok(usage) } else { Err(usage) })
    })
    .await
}
