//! The developer's commands: `cargo xtask <command>`.

mod cluster;

use anyhow::Result;
use clap::Parser;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "The developer's commands.")]
enum Command {
    /// Clusters that run in the background on this machine.
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
}

#[tokio::main]
async fn main() -> Result<()> {
    match Command::parse() {
        Command::Cluster(command) => cluster::run(command).await,
    }
}
