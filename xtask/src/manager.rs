//! Running the manager.

use std::{
    pin::pin,
    process::{Command, ExitStatus},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use cluster::program::build_manager;
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use crate::{account, workstation::Workstation};

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
    if std::env::var_os("ENSEMBLE_HEALTH_PROBE_BIND_ADDRESS").is_none() {
        manager.env("ENSEMBLE_HEALTH_PROBE_BIND_ADDRESS", "127.0.0.1:8081");
    }
    let says_where = args.iter().any(|arg| arg.starts_with("--metrics-"));
    if !says_where && std::env::var_os("ENSEMBLE_METRICS_BIND_ADDRESS").is_none() {
        manager
            .env("ENSEMBLE_METRICS_BIND_ADDRESS", "127.0.0.1:8443")
            .env("ENSEMBLE_METRICS_SECURE", "false");
    }
    // There is one, and it may be stopped at any moment.
    if std::env::var_os("ENSEMBLE_LEADER_ELECT").is_none() {
        manager.env("ENSEMBLE_LEADER_ELECT", "false");
    }
    let webhooks = Workstation::new(args).await;
    manager.args(webhooks.flags()).args(args);
    let mut ended = pin!(until_ended(&mut manager));
    let status = tokio::select! {
        status = &mut ended => status,
        registered = webhooks.register() => {
            if let Err(error) = registered {
                eprintln!("the webhooks are left out: {error:#}");
            }
            ended.await
        }
    };
    webhooks.withdraw().await.context("run `cargo xtask uninstall` once the API server answers")?;
    let status = status.context("cannot run the manager")?;
    if !status.success() {
        bail!("the manager ended: {status}");
    }
    Ok(())
}

/// Runs a program to its end. A terminal's Ctrl+C reaches the program by itself; SIGTERM is handed on.
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
            // One that has ended in this moment needs no signal.
            _ = terminate.recv() => drop(kill_process(pid, Signal::TERM)),
        }
    }
}
