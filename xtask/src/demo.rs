//! `demo`: all controllers at work on a real API server, from nothing.

pub(crate) mod samples;
mod table;
mod tenant;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use cluster::{Cluster, Options, Progress, binaries::Locator, program::build_manager};

use crate::{process::resident, rbac, stage::start_asked_manager, workspace};

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
        let program = build_manager(self.release)?;
        // Built by now as well, so that the time that is told is that of the start alone.
        Locator::from_env()?.locate(&Progress::stderr())?;
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
        let running = start_asked_manager(cluster, program).await?;
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
            memory(running.pid())
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

/// The memory that a process has in use, for people.
fn memory(pid: u32) -> String {
    resident(pid).map_or_else(|_| "unknown".to_owned(), |mebibytes| format!("{mebibytes:.1} MiB"))
}
