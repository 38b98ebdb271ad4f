//! Commands for developers: `cargo xtask <command>`.

mod api;
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
mod kubernetes;
mod new_controller;
mod policies;
mod ports;
mod prose;
mod rbac;
mod run;
mod service_account;
mod test;
mod webhooks;
mod workstation;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser};
use operator_runtime::exit;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Commands for developers")]
enum Command {
    /// Start a cluster, run all controllers on all samples, and print the results
    Demo(demo::Demo),
    /// Run all tests and print the totals
    Test(test::Test),
    /// Measure a release build of the manager, and print the figures
    Bench(Box<bench::Bench>),
    /// Inject faults between the manager and the API server, one at a time, and check the results
    Faults(faults::Faults),
    /// Run the manager against the cluster of your kubeconfig until Ctrl+C
    Run(run::Run),
    /// Install the CustomResourceDefinitions into the cluster of your kubeconfig
    Install,
    /// Delete the CustomResourceDefinitions and all their objects from the cluster of your
    /// kubeconfig
    Uninstall,
    /// Manage clusters that run in the background on this machine
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Build the container image of the manager as an OCI archive, without Docker
    Image(image::BuildImage),
    /// Record what the manager executes under load, for `cargo xtask image --profile`
    Profile(image::RecordProfile),
    /// Generate crates/*/public-api.txt, the public API of the libraries
    GenApi(Check),
    /// Generate deploy/crds
    GenCrds(Check),
    /// Check that deploy/crds is compatible with the last release
    CheckCrds,
    /// Generate deploy/rbac and docs/reference/permissions.md
    GenRbac(Check),
    /// Generate deploy/webhooks
    GenWebhooks(Check),
    /// Generate deploy/manager, deploy/install.yaml, and the files of the Helm chart
    GenDeploy(Check),
    /// Generate docs/reference
    GenDocs(Check),
    /// Build the pages of docs as a book in target/book, and check their links
    Book,
    /// Check the prose of the pages with Vale
    Prose,
    /// Create a controller: a crate with tests, registered in the manager
    NewController(new_controller::NewController),
}

#[derive(Args)]
struct Check {
    /// Change nothing, and fail if a file is out of date
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
        Command::Bench(bench) => bench.run(|| image::build_for_host(image::Profile::Release)).await,
        Command::Faults(faults) => faults.run().await,
        Command::Run(run) => run.run().await,
        Command::Install => install::install().await,
        Command::Uninstall => install::uninstall().await,
        Command::Cluster(command) => cluster::run(command).await,
        Command::Image(image) => image.run(),
        Command::Profile(profile) => profile.run(),
        Command::GenApi(Check { check }) => api::generate(check),
        Command::GenCrds(Check { check }) => crds::generate(check),
        Command::CheckCrds => check_crds::check(),
        Command::GenRbac(Check { check }) => rbac::generate(check),
        Command::GenWebhooks(Check { check }) => webhooks::generate(check),
        Command::GenDeploy(Check { check }) => deploy::generate(check),
        Command::GenDocs(Check { check }) => docs::generate(check),
        Command::Book => book::build(),
        Command::Prose => prose::check(),
        Command::NewController(new) => new.run(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn commands_are_consistent() {
        Command::command().debug_assert();
    }
}
