//! `cargo xtask demo`: runs all controllers on a new cluster.

mod postgres;
mod proxy;
mod real;
mod table;
mod tenant;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use cluster::{
    Cluster, Options, Progress,
    program::{build_manager, build_proxy, workspace},
    usage::resident,
};
use local_manager::{launch::start_manager_with_webhooks, proxy::start_proxy, samples};

use crate::{kubernetes::Kubernetes, rbac};

/// Starts a cluster, runs all controllers on all samples, and prints the results.
#[derive(Args)]
pub(crate) struct Demo {
    /// Exit when all samples are ready, instead of waiting for Ctrl+C
    #[arg(long)]
    exit: bool,

    /// Use a release build of the manager, which takes longer to build
    #[arg(long)]
    release: bool,

    /// Number of simulated nodes
    #[arg(long, default_value_t = 3)]
    nodes: usize,

    /// Run the image of the manager and all containers on three real nodes, which need root and
    /// what `cargo xtask cluster prepare` installs
    #[arg(long, conflicts_with = "nodes")]
    real: bool,

    /// Archive with an image of the manager for `--real`, instead of one that is built
    #[arg(long, value_name = "FILE", requires = "real", conflicts_with = "release")]
    image: Option<PathBuf>,

    #[command(flatten)]
    kubernetes: Kubernetes,
}

/// Timeout until the samples are ready.
const TIMEOUT: Duration = Duration::from_mins(2);

impl Demo {
    pub(crate) async fn run(&self) -> Result<()> {
        if self.real {
            return real::run(self).await;
        }
        println!("building the manager ...");
        let programs = [build_manager(self.release)?, build_proxy(self.release)?];
        // Builds the control plane first, so that the printed time does not include it.
        let locator = self.kubernetes.locator()?;
        locator.locate(&Progress::stderr())?;
        let began = Instant::now();
        let options = Options { nodes: self.nodes, locator: Some(locator), ..Options::default() };
        let cluster = Cluster::start(options).await?;
        tokio::select! {
            result = self.show(&cluster, &programs, began) => result?,
            interrupted = tokio::signal::ctrl_c() => interrupted?,
        }
        println!("stopping ...");
        cluster.stop()
    }

    async fn show(&self, cluster: &Cluster, programs: &[PathBuf; 2], began: Instant) -> Result<()> {
        let [manager, proxy] = programs;
        let running = start_manager_with_webhooks(cluster, manager).await?;
        let proxy = start_proxy(cluster, proxy).await?;
        println!(
            "the manager runs as ServiceAccount {}/{} (log: {})",
            rbac::NAMESPACE,
            rbac::ACCOUNT,
            running.log().display()
        );

        let samples = samples::apply(cluster, &workspace().join("samples")).await?;
        let ready = samples::wait(cluster, samples, TIMEOUT).await;
        let ready = ready.with_context(|| {
            format!("samples are not ready; end of the manager's log:\n{}", running.log_tail())
        })?;
        let all_ready = began.elapsed();
        let tenant = tenant::add_namespace(cluster, TIMEOUT).await?;
        let (kubeconfig, seen) = proxy::namespaces_of_owner(cluster, &proxy, TIMEOUT).await?;
        table::print(cluster, &ready).await?;
        println!("\n{tenant}");
        println!("{}", proxy::sentence(&seen));
        println!(
            "databases need containers: the sample of PostgresCluster runs with `cargo xtask demo --real`"
        );
        println!(
            "all samples ready {:.1} s after the start of the cluster; manager: {} resident",
            all_ready.as_secs_f64(),
            memory(running.pid())
        );
        if !self.exit {
            wait_for_interrupt(cluster, &kubeconfig).await?;
        }
        proxy.process.stop()?;
        running.stop()
    }
}

/// Prints how to use the cluster, and never returns. `owner` is the kubeconfig of the owner of a Tenant.
async fn wait_for_interrupt(cluster: &Cluster, owner: &Path) -> Result<()> {
    println!("\nTo use the cluster, run in another terminal (press Ctrl+C here to stop it):\n");
    println!("  export KUBECONFIG={}", cluster.kubeconfig().display());
    println!("  export PATH={}:$PATH", cluster.record().binaries.display());
    println!("  kubectl get ensemble --all-namespaces");
    println!("  kubectl scale podset podset-sample --replicas=5");
    println!("  kubectl --kubeconfig {} get namespaces    # as the owner of a Tenant", owner.display());
    std::future::pending().await
}

/// Returns the resident memory of a process as text.
fn memory(pid: u32) -> String {
    resident(pid).map_or_else(|_| "unknown".to_owned(), |mebibytes| format!("{mebibytes:.1} MiB"))
}
