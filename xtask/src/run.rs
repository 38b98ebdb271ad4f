//! `cargo xtask run`: runs the manager on this machine.

use std::{
    net::SocketAddr,
    pin::pin,
    process::{Command, ExitStatus},
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use cluster::program::build_manager;
use manager::{Flags, Task};
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    service_account,
    workstation::{Addresses, Workstation},
};

/// Runs the manager against the cluster of your kubeconfig.
#[derive(Args)]
pub(crate) struct Run {
    /// Use the permissions of deploy/rbac, which must be applied, instead of your own
    #[arg(long)]
    as_deployed: bool,

    /// Flags of the manager, after `--`
    #[arg(last = true)]
    args: Vec<String>,
}

impl Run {
    /// Runs the manager until Ctrl+C or SIGTERM.
    ///
    /// Its webhooks are registered meanwhile. This always uses your permissions, because those of
    /// the manager do not include it.
    pub(crate) async fn run(&self) -> Result<()> {
        let mut manager = Command::new(build_manager(false)?);
        if !self.as_deployed {
            return run(manager, &self.args).await;
        }
        let kubeconfig = service_account::kubeconfig().await?;
        manager.env("KUBECONFIG", kubeconfig.path());
        run(manager, &self.args).await
    }
}

async fn run(mut manager: Command, args: &[String]) -> Result<()> {
    // There is a single replica, and a restart must not wait for its Lease.
    if std::env::var_os("ENSEMBLE_LEADER_ELECT").is_none() {
        manager.env("ENSEMBLE_LEADER_ELECT", "false");
    }
    let addresses = Addresses::choose(args)?;
    let defaults = addresses.webhooks().into_iter().chain(addresses.others().iter().map(String::as_str));
    let flags = parse(defaults, args);
    if flags.task != Task::Run {
        return check_exit(wait(manager.args(args)).await);
    }
    let workstation = Workstation::new(&flags, addresses.webhooks()).await;
    println!("{}", describe(&flags, &workstation));
    manager.args(workstation.flags()).args(addresses.others()).args(args);
    let mut exit = pin!(wait(&mut manager));
    let status = tokio::select! {
        status = &mut exit => status,
        registered = workstation.register() => {
            if let Err(error) = registered {
                eprintln!("running without webhooks: {error:#}");
            }
            exit.await
        }
    };
    workstation.unregister().await.context(
        "cannot remove the webhooks; run `cargo xtask uninstall` when the API server is reachable",
    )?;
    check_exit(status)
}

/// Parses the manager's flags. Exits with a message if they are invalid.
fn parse<'a>(defaults: impl Iterator<Item = &'a str>, args: &'a [String]) -> Flags {
    let line = ["ensemble-manager"].into_iter().chain(defaults).chain(args.iter().map(String::as_str));
    manager::parse_from(line.map(Into::into)).unwrap_or_else(|error| error.exit())
}

/// Returns a sentence with the addresses of the manager.
fn describe(flags: &Flags, workstation: &Workstation) -> String {
    let webhooks = flags.webhook_bind_address.filter(|_| workstation.has_webhooks());
    let at = |address: Option<SocketAddr>| {
        address.map_or_else(|| "no address".to_owned(), |address| address.to_string())
    };
    format!(
        "serving webhooks on {}, metrics on {}, health probes on {}",
        at(webhooks),
        at(flags.metrics_bind_address),
        at(flags.health_probe_bind_address)
    )
}

fn check_exit(status: Result<ExitStatus>) -> Result<()> {
    let status = status.context("cannot run the manager")?;
    ensure!(status.success(), "the manager failed: {status}");
    Ok(())
}

/// Runs a program until it exits, and forwards SIGINT and SIGTERM to it as SIGTERM.
///
/// `kill` can signal this process alone. On Ctrl+C in a terminal, the program receives both signals
/// and treats them as one.
async fn wait(command: &mut Command) -> Result<ExitStatus> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut child = command.spawn()?;
    let pid = Pid::from_child(&child);
    let mut exit = tokio::task::spawn_blocking(move || child.wait());
    loop {
        tokio::select! {
            biased;
            status = &mut exit => return Ok(status??),
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        // The program may have exited already.
        let _ = kill_process(pid, Signal::TERM);
    }
}
