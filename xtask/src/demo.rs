//! `demo`: all controllers at work on a real API server, from nothing.

mod samples;
mod table;
mod tenant;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use cluster::{Cluster, Companion, Options};
use operator_runtime::crds::install;

use crate::{crds::definitions, manager, rbac, workspace};

/// Brings up a cluster, runs all controllers on all samples, and shows what comes of it.
#[derive(Args)]
pub(crate) struct Demo {
    /// Stop when all samples are ready, instead of staying until Ctrl+C
    #[arg(long)]
    exit: bool,

    /// Build the manager as it is released: slower to build, smaller to run
    #[arg(long)]
    release: bool,

    /// How many nodes are simulated
    #[arg(long, default_value_t = 3)]
    nodes: usize,
}

/// How long the samples may take.
const PATIENCE: Duration = Duration::from_mins(2);

impl Demo {
    pub(crate) async fn run(&self) -> Result<()> {
        println!("building the manager ...");
        let program = manager::build(self.release)?;
        let began = Instant::now();
        let cluster = Cluster::start(Options { nodes: self.nodes, ..Options::default() }).await?;
        tokio::select! {
            shown = self.show(&cluster, &program, began) => shown?,
            interrupted = tokio::signal::ctrl_c() => interrupted?,
        }
        println!("stopping ...");
        cluster.stop()
    }

    async fn show(&self, cluster: &Cluster, program: &Path, began: Instant) -> Result<()> {
        install(&cluster.client().await?, &definitions()).await?;
        let rights = workspace().join("deploy/rbac");
        cluster.kubectl(&["apply", "--server-side", "-f", &rights.display().to_string()]).await?;
        let running = start_manager(cluster, program).await?;
        println!(
            "the manager runs as ServiceAccount {}/{} (log: {})",
            rbac::NAMESPACE,
            rbac::ACCOUNT,
            running.log().display()
        );

        let samples = samples::apply(cluster, &workspace().join("samples")).await?;
        let ready = samples::wait(cluster, samples, PATIENCE).await;
        let ready = ready.with_context(|| format!("the manager's log ends with:\n{}", running.log_tail()))?;
        let all_ready = began.elapsed();
        let joined = tenant::join(cluster, PATIENCE).await?;
        table::print(cluster, &ready).await?;
        println!("\n{joined}");
        println!(
            "all samples ready {:.1} s after the start of the cluster; manager: {} resident",
            all_ready.as_secs_f64(),
            resident(running.pid())
        );
        if !self.exit {
            self.stay(cluster).await?;
        }
        running.stop()
    }

    /// Says how to look around, and stays.
    async fn stay(&self, cluster: &Cluster) -> Result<()> {
        println!("\nlook around in another terminal, then stop this with Ctrl+C:\n");
        println!("  export KUBECONFIG={}", cluster.kubeconfig().display());
        println!("  export PATH={}:$PATH", cluster.record().binaries.display());
        println!("  kubectl get ensemble --all-namespaces");
        println!("  kubectl scale podset podset-sample --replicas=5");
        std::future::pending().await
    }
}

async fn start_manager(cluster: &Cluster, program: &Path) -> Result<Companion> {
    let kubeconfig = cluster.service_account_kubeconfig(rbac::NAMESPACE, rbac::ACCOUNT).await?;
    let environment = [("KUBECONFIG".to_owned(), kubeconfig.display().to_string())];
    cluster.companion("manager", program, &["--health-probe-bind-address=0".to_owned()], &environment)
}

/// The memory that a process has in use, as `/proc` tells it where there is one.
fn resident(pid: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kibibytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.trim().parse().ok());
    kibibytes.map_or_else(|| "unknown".to_owned(), |kibibytes: f64| format!("{:.1} MiB", kibibytes / 1024.0))
}
