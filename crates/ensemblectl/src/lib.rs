//! `ensemblectl` checks an installation, shows why an object is not ready, and operates
//! PostgresClusters. Only `postgres` changes anything.
//!
//! Controllers, kinds, permissions, webhooks, and Leases come from the code of the manager, and are
//! not repeated here.
//!
//! ```text
//! flags         the command line
//! cluster       the kubeconfig and the connection to the API server
//! errors        error messages with their remedy
//! kinds         the kinds of Ensemble and their names, as kubectl accepts them
//! object        conditions, readiness, and state of an object (pure)
//! installation  the manager's Deployment and its flags
//! check         checks of the installation, each with a remedy
//! children      the objects that belong to an object; tree and status show them
//! wait_target   the state that wait waits for (pure)
//! wait          watches one object until it reaches a state
//! postgres      shows PostgresClusters, and requests changes of them
//! report        an archive of all of this, without values that can be secret
//! output        tables, colours, and JSON
//! ```

mod access_review;
mod age;
mod check;
mod children;
mod cluster;
mod errors;
mod flags;
mod installation;
mod kinds;
mod object;
mod output;
mod postgres;
mod report;
mod status;
#[cfg(test)]
mod testing;
mod tree;
mod wait;
mod wait_target;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::CommandFactory;

use crate::{
    cluster::Cluster,
    flags::{Command, Flags},
    output::ExitStatus,
};

/// Runs the command and returns its exit code. Prints errors to standard error.
pub fn main() -> ExitCode {
    let flags = flags::parse();
    flags.color.write_global();
    match run(flags) {
        Ok(exit_status) => exit_status.into(),
        Err(error) => {
            output::print_error(&errors::format(&error));
            ExitStatus::Unknown.into()
        }
    }
}

fn run(flags: Flags) -> Result<ExitStatus> {
    if let Command::Completion { shell } = flags.command {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Flags::command(), "ensemblectl", &mut script);
        output::print_text(&String::from_utf8_lossy(&script))?;
        return Ok(ExitStatus::Success);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the asynchronous runtime")?;
    runtime.block_on(async {
        let cluster = Cluster::connect(&flags.config).await?;
        match flags.command {
            Command::Check(check) => check::run(&cluster, &check).await,
            Command::Status(status) => status::run(&cluster, &status).await,
            Command::Tree(tree) => tree::run(&cluster, &tree).await,
            Command::Wait(wait) => wait::run(&cluster, &wait).await,
            Command::Report(report) => report::run(&cluster, &report).await,
            Command::Postgres { command } => postgres::run(&cluster, &command).await,
            Command::Completion { .. } => Ok(ExitStatus::Success),
        }
    })
}
