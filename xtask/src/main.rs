//! The developer's commands: `cargo xtask <command>`.

mod account;
mod bench;
mod book;
mod check_crds;
mod cluster;
mod crds;
mod demo;
mod deploy;
mod docs;
mod faults;
mod generate;
mod image;
mod install;
mod manager;
mod new_controller;
mod policies;
mod process;
mod rbac;
mod stage;
mod test;
mod webhooks;
mod workstation;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Result;
use clap::{Args, Parser};
use operator_runtime::exit;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The developer's commands")]
enum Command {
    /// Bring up a cluster, run all controllers on all samples, and show what comes of it
    Demo(demo::Demo),
    /// Run all tests and print the totals
    Test(test::Test),
    /// Measure the manager, built as it is released, and print the figures
    Bench(bench::Bench),
    /// Break what lies between the manager and the API server, one thing at a time, and judge what comes of it
    Faults(faults::Faults),
    /// Run the manager against the cluster of your kubeconfig, until Ctrl+C
    Run(manager::Run),
    /// Register the custom resource definitions in the cluster of your kubeconfig
    Install,
    /// Remove the custom resource definitions and all their objects from the cluster of your kubeconfig
    Uninstall,
    /// Clusters that run in the background on this machine
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Build the manager as a container image, an OCI archive, without Docker
    Image(image::Make),
    /// Write deploy/crds from the code
    GenCrds(Check),
    /// Refuse definitions in deploy/crds that take less than those of the last release
    CheckCrds,
    /// Write deploy/rbac from the code
    GenRbac(Check),
    /// Write deploy/webhooks from the code
    GenWebhooks(Check),
    /// Write deploy/manager, deploy/install.yaml and the Helm chart's files from the code
    GenDeploy(Check),
    /// Write docs/reference from the code
    GenDocs(Check),
    /// Make the pages of docs a book, in target/book
    Book,
    /// Write a new controller: a crate that works, is registered and has tests
    NewController(new_controller::NewController),
}

#[derive(Args)]
struct Check {
    /// Change nothing; fail if something would change
    #[arg(long)]
    check: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    exit::code(run(Command::parse()).await)
}

async fn run(command: Command) -> Result<()> {
    match command {
        Command::Demo(demo) => demo.run().await,
        Command::Test(test) => test.run().await,
        Command::Bench(bench) => bench.run().await,
        Command::Faults(faults) => faults.run().await,
        Command::Run(run) => run.run().await,
        Command::Install => install::install().await,
        Command::Uninstall => install::uninstall().await,
        Command::Cluster(command) => cluster::run(command).await,
        Command::Image(image) => image.run(),
        Command::GenCrds(Check { check }) => crds::generate(check),
        Command::CheckCrds => check_crds::check(),
        Command::GenRbac(Check { check }) => rbac::generate(check),
        Command::GenWebhooks(Check { check }) => webhooks::generate(check),
        Command::GenDeploy(Check { check }) => deploy::generate(check),
        Command::GenDocs(Check { check }) => docs::generate(check),
        Command::Book => book::build(),
        Command::NewController(new) => new.run(),
    }
}

/// The folder of the workspace.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}
