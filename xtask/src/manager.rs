//! Running the manager.

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
    account,
    workstation::{Addresses, Workstation},
};

/// Runs the manager against the cluster that the kubeconfig names.
#[derive(Args)]
pub(crate) struct Run {
    /// Run it with the rights of deploy/rbac, which have to be applied, instead of with yours
    #[arg(long)]
    as_deployed: bool,

    /// The manager's flags, after `--`
    #[arg(last = true)]
    args: Vec<String>,
}

impl Run {
    /// Until Ctrl+C or SIGTERM. The API server is told of the manager's webhooks for as long, with your rights in any
    /// case: those of the manager do not include it.
    pub(crate) async fn run(&self) -> Result<()> {
        let mut manager = Command::new(build_manager(false)?);
        if !self.as_deployed {
            return run(manager, &self.args).await;
        }
        let kubeconfig = account::kubeconfig().await?;
        manager.env("KUBECONFIG", kubeconfig.path());
        run(manager, &self.args).await
    }
}

async fn run(mut manager: Command, args: &[String]) -> Result<()> {
    // There is one, and it may be stopped at any moment.
    if std::env::var_os("ENSEMBLE_LEADER_ELECT").is_none() {
        manager.env("ENSEMBLE_LEADER_ELECT", "false");
    }
    let addresses = Addresses::choose(args)?;
    let line = addresses.webhooks().into_iter().chain(addresses.others().iter().map(String::as_str));
    let flags = parse(line, args);
    if flags.task != Task::Run {
        return judge(until_ended(manager.args(args)).await);
    }
    let workstation = Workstation::new(&flags, addresses.webhooks()).await;
    println!("{}", describe(&flags, &workstation));
    manager.args(workstation.flags()).args(addresses.others()).args(args);
    let mut ended = pin!(until_ended(&mut manager));
    let status = tokio::select! {
        status = &mut ended => status,
        registered = workstation.register() => {
            if let Err(error) = registered {
                eprintln!("the webhooks are left out: {error:#}");
            }
            ended.await
        }
    };
    workstation.withdraw().await.context("run `cargo xtask uninstall` once the API server answers")?;
    judge(status)
}

/// Returns the manager's flags. Ends the process with a message if they make no sense.
fn parse<'a>(chosen: impl Iterator<Item = &'a str>, args: &'a [String]) -> Flags {
    let line = ["ensemble-manager"].into_iter().chain(chosen).chain(args.iter().map(String::as_str));
    manager::parse_from(line.map(Into::into)).unwrap_or_else(|error| error.exit())
}

/// Returns a sentence that says where the manager serves what.
fn describe(flags: &Flags, workstation: &Workstation) -> String {
    let webhooks = flags.webhook_bind_address.filter(|_| workstation.has_webhooks());
    let at = |address: Option<SocketAddr>| {
        address.map_or_else(|| "nowhere".to_owned(), |address| address.to_string())
    };
    format!(
        "webhooks are served on {}, metrics on {}, health probes on {}",
        at(webhooks),
        at(flags.metrics_bind_address),
        at(flags.health_probe_bind_address)
    )
}

fn judge(ended: Result<ExitStatus>) -> Result<()> {
    let status = ended.context("cannot run the manager")?;
    ensure!(status.success(), "the manager ended: {status}");
    Ok(())
}

/// Runs a program to its end. A request to stop is passed on to it as SIGTERM: of a terminal's Ctrl+C the program learns by
/// itself and takes both for one, but `kill` may reach this process alone.
async fn until_ended(command: &mut Command) -> Result<ExitStatus> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut child = command.spawn()?;
    let pid = Pid::from_child(&child);
    let mut ended = tokio::task::spawn_blocking(move || child.wait());
    loop {
        tokio::select! {
            biased;
            status = &mut ended => return Ok(status??),
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        // One that has ended in this moment needs no signal.
        let _ = kill_process(pid, Signal::TERM);
    }
}
