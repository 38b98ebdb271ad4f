//! Building and running the manager.

use std::{
    path::{Path, PathBuf},
    pin::pin,
    process::{Command, ExitStatus},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use crate::{workspace, workstation::Workstation};

/// Builds the manager and returns where its program is.
pub(crate) fn build(release: bool) -> Result<PathBuf> {
    let mut cargo = cargo();
    // Together with xtask, so that both share one build of their dependencies.
    let packages = ["--package", "xtask", "--package", "manager", "--bin", "ensemble-manager"];
    cargo.args(["build", "--quiet", "--message-format=json-render-diagnostics"]).args(packages);
    if release {
        cargo.arg("--release");
    }
    let output = cargo.stderr(std::process::Stdio::inherit()).output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("the manager does not build");
    }
    executable(&String::from_utf8_lossy(&output.stdout)).context("cargo did not say where the manager is")
}

/// The executable that cargo's messages name last.
fn executable(messages: &str) -> Option<PathBuf> {
    let mut messages =
        messages.lines().rev().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    messages.find_map(|message| message.get("executable")?.as_str().map(PathBuf::from))
}

/// Runs the manager against the cluster that the kubeconfig names, until Ctrl+C or SIGTERM. The API server is told of
/// its webhooks for as long.
pub(crate) async fn run(args: &[String]) -> Result<()> {
    let program = build(false)?;
    let mut manager = Command::new(program);
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

/// The cargo that runs us, in the workspace.
pub(crate) fn cargo() -> Command {
    cargo_in(&workspace())
}

/// The cargo that runs us, in a folder.
///
/// It does not get to know of the package that this program belongs to. Some build scripts (ring's) ask for the
/// variables that tell of it; with other values than before they, and all that is built upon them, would be built
/// anew.
pub(crate) fn cargo_in(folder: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(folder);
    for (name, _) in std::env::vars_os() {
        if ["CARGO_MANIFEST_", "CARGO_PKG_"].iter().any(|own| name.to_string_lossy().starts_with(own)) {
            cargo.env_remove(name);
        }
    }
    cargo
}
