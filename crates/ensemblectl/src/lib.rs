//! `ensemblectl`: with which a person sees that an installation is fine, and finds out why it is not.
//!
//! It only reads. What there is to know of controllers, kinds, rights, webhooks and Leases comes from the code of the
//! manager; nothing of it is written down here again.
//!
//! ```text
//! flags         the command line; connect finds the cluster, explain says what to do when that does not work
//! kinds         our kinds and the words for them; object reads what an object says of itself (pure)
//! installation  where the manager runs, and with which flags
//! check         findings about the installation, each with what to do
//! children      what belongs to an object; tree and status show it
//! wait          follows one object until it is as asked
//! report        all of this as files in an archive, without values that may be secret (redact, pure)
//! output        tables, colours, JSON
//! ```

mod age;
mod check;
mod children;
mod connect;
mod explain;
mod flags;
mod installation;
mod kinds;
mod object;
mod output;
mod report;
mod rights;
mod status;
#[cfg(test)]
mod testing;
mod tree;
mod wait;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::CommandFactory;

use crate::{
    connect::Cluster,
    flags::{Flags, Verb},
    output::Ending,
};

/// Does what the command line asks for, and says how that ended.
pub fn main() -> ExitCode {
    let flags = flags::parse();
    flags.color.write_global();
    match run(flags) {
        Ok(ending) => ending.into(),
        Err(error) => {
            output::complain(&explain::text(&error));
            Ending::Unknown.into()
        }
    }
}

fn run(flags: Flags) -> Result<Ending> {
    if let Verb::Completion { shell } = flags.verb {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Flags::command(), "ensemblectl", &mut script);
        output::say(&String::from_utf8_lossy(&script))?;
        return Ok(Ending::Fine);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the asynchronous runtime")?;
    runtime.block_on(async {
        let cluster = Cluster::connect(&flags.place).await?;
        match flags.verb {
            Verb::Check(check) => check::run(&cluster, &check).await,
            Verb::Status(status) => status::run(&cluster, &status).await,
            Verb::Tree(tree) => tree::run(&cluster, &tree).await,
            Verb::Wait(wait) => wait::run(&cluster, &wait).await,
            Verb::Report(report) => report::run(&cluster, &report).await,
            Verb::Completion { .. } => Ok(Ending::Fine),
        }
    })
}
