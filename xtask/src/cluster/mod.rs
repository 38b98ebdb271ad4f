//! `cargo xtask cluster ...`: clusters that run in the background.

mod prepare;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use cluster::state::Owner;
use cluster::{Options, Progress, Record, attach, named};

use crate::kubernetes::Kubernetes;

/// Manages clusters that run in the background on this machine.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Start a cluster, and return when it is usable; the first start builds the control plane,
    /// which takes minutes
    Up(Up),
    /// Stop a cluster, and delete all its files
    Down(Name),
    /// Load an image into a cluster with real nodes
    Load(Load),
    /// Install the packages that real nodes need
    Prepare,
    /// List the clusters of this user
    Status,
    /// Print the path of a cluster's kubeconfig, as in export KUBECONFIG=$(cargo xtask cluster
    /// kubeconfig)
    Kubeconfig(Name),
    /// Run a cluster in the foreground until SIGTERM
    #[command(hide = true)]
    Keep(Up),
}

/// Name of a cluster.
#[derive(Args, Debug)]
pub(crate) struct Name {
    /// Name of the cluster
    #[arg(long, default_value = named::DEFAULT_NAME)]
    name: String,
}

/// Options of a cluster to start.
#[derive(Args, Debug)]
pub(crate) struct Up {
    #[command(flatten)]
    name: Name,
    /// Number of simulated nodes; three by default, or none beside real nodes
    #[arg(long)]
    nodes: Option<usize>,
    /// Number of real nodes, which run containers; `cargo xtask cluster prepare` installs what they
    /// need
    #[arg(long, default_value_t = 0)]
    real_nodes: usize,
    #[command(flatten)]
    kubernetes: Kubernetes,
}

/// Image to load.
#[derive(Args, Debug)]
pub(crate) struct Load {
    #[command(flatten)]
    name: Name,
    /// OCI archive, as `cargo xtask image` or `docker save` writes it
    archive: PathBuf,
}

/// Runs a command.
pub(crate) async fn run(command: ClusterCommand) -> Result<()> {
    match command {
        ClusterCommand::Up(up) => start(&up),
        ClusterCommand::Down(Name { name }) => stop(&name),
        ClusterCommand::Load(Load { name: Name { name }, archive }) => {
            for image in attach(&name)?.load_image(&archive)? {
                println!("loaded {image}");
            }
            Ok(())
        }
        ClusterCommand::Prepare => prepare::run(),
        ClusterCommand::Status => status(),
        ClusterCommand::Kubeconfig(Name { name }) => {
            println!("{}", attach(&name)?.kubeconfig().display());
            Ok(())
        }
        ClusterCommand::Keep(up) => {
            let (nodes, real_nodes) = (up.simulated_nodes(), up.real_nodes);
            let locator = Some(up.kubernetes.locator()?);
            let name = Some(up.name.name);
            named::keep(Options { name, nodes, real_nodes, locator, ..Options::default() }).await
        }
    }
}

impl Up {
    fn simulated_nodes(&self) -> usize {
        self.nodes.unwrap_or(if self.real_nodes > 0 { 0 } else { 3 })
    }
}

fn start(up: &Up) -> Result<()> {
    let began = Instant::now();
    let mut keeper = Command::new(std::env::current_exe().context("cannot find the path of this program")?);
    keeper.args(["cluster", "keep", "--name", &up.name.name, "--nodes", &up.simulated_nodes().to_string()]);
    keeper.args(["--real-nodes", &up.real_nodes.to_string()]);
    keeper.args(["--kubernetes", &up.kubernetes.release().to_string()]);
    let record = named::up(&up.name.name, keeper, &Progress::stderr())?;
    println!("cluster {:?} is usable after {:.1} s", record.name, began.elapsed().as_secs_f64());
    println!("  export KUBECONFIG={}", record.kubeconfig.display());
    println!("  alias kubectl={}", record.kubectl().display());
    Ok(())
}

fn stop(name: &str) -> Result<()> {
    if named::down(name)? {
        println!("cluster {name:?} is stopped");
    } else {
        println!("cluster {name:?} is not running");
    }
    Ok(())
}

fn status() -> Result<()> {
    let clusters = named::status()?;
    if clusters.is_empty() {
        println!("no cluster is running");
    }
    for cluster in clusters {
        println!("{}", describe(&cluster));
    }
    Ok(())
}

fn describe(cluster: &named::Status) -> String {
    match (&cluster.record, cluster.owner) {
        (Some(record), Owner::Present) => describe_running(record),
        (None, Owner::Present) => format!("{}: starting, in {}", cluster.name, cluster.dir.display()),
        (_, Owner::Gone) => stale(&cluster.name, &cluster.dir),
    }
}

fn stale(name: &str, dir: &Path) -> String {
    format!("{name}: stale after a crash, in {}; the next start of a cluster deletes it", dir.display())
}

fn describe_running(record: &Record) -> String {
    let versions = &record.versions;
    let parts: Vec<_> = record.pids.iter().map(|(component, pid)| format!("{component} {pid}")).collect();
    [
        format!("{}: running, {} simulated and {} real nodes", record.name, record.nodes, record.real_nodes),
        format!("  kubeconfig  {}", record.kubeconfig.display()),
        format!("  kubectl     {}", record.kubectl().display()),
        format!(
            "  versions    Kubernetes {}, etcd {}, kwok {}",
            versions.kubernetes, versions.etcd, versions.kwok
        ),
        format!("  ports       API server {}, etcd {}", record.ports.api_server, record.ports.etcd),
        format!("  processes   keeper {}, {}", record.owner, parts.join(", ")),
    ]
    .join("\n")
}
