//! A cluster with the manager on it, under its generated rights.

use std::{
    net::{SocketAddr, TcpListener},
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result};
use cluster::{Cluster, Companion, wait::eventually};
use manager::CONTROLLERS;

use crate::{
    crds::{definitions, install},
    rbac, workspace,
    workstation::Webhooks,
};

/// How long a manager may take until it answers.
const PATIENCE: Duration = Duration::from_mins(1);

/// Registers the definitions, grants the rights of `deploy/rbac`, and starts the manager as the ServiceAccount that
/// has them.
pub(crate) async fn start_manager(cluster: &Cluster, program: &Path) -> Result<Companion> {
    prepare(cluster).await?;
    launch(cluster, program, "0").await
}

/// As [`start_manager`], and the API server asks it: returns once it does.
pub(crate) async fn start_asked_manager(cluster: &Cluster, program: &Path) -> Result<Companion> {
    prepare(cluster).await?;
    let address = free_address()?;
    let host = address.ip().to_string();
    let flags = [
        "--health-probe-bind-address=0".to_owned(),
        format!("--webhook-bind-address={address}"),
        format!("--webhook-host={host}"),
    ];
    let running = launch_with(cluster, program, &flags).await?;
    Webhooks::new(cluster.client().await?, CONTROLLERS, address, &host).register().await?;
    let sample = workspace().join("samples/tenant.yaml").display().to_string();
    let create = ["create", "--dry-run=server", "-f", &sample];
    eventually("the webhooks to answer", PATIENCE, async || cluster.kubectl(&create).await.map(|_| true))
        .await?;
    Ok(running)
}

/// Registers the definitions and grants the rights of `deploy/rbac`.
pub(crate) async fn prepare(cluster: &Cluster) -> Result<()> {
    install(&cluster.client().await?, &definitions()).await?;
    let rights = workspace().join("deploy/rbac").display().to_string();
    cluster.kubectl(&["apply", "--server-side", "-f", &rights]).await?;
    Ok(())
}

/// Starts a manager on a cluster that is prepared. `probes` is where it tells of itself, `0` for nowhere.
pub(crate) async fn launch(cluster: &Cluster, program: &Path, probes: &str) -> Result<Companion> {
    // Its webhooks are served, but nobody is told of them.
    let flags =
        [format!("--health-probe-bind-address={probes}"), "--webhook-bind-address=127.0.0.1:0".to_owned()];
    launch_with(cluster, program, &flags).await
}

/// Starts a manager with these flags on a cluster that is prepared.
pub(crate) async fn launch_with(cluster: &Cluster, program: &Path, flags: &[String]) -> Result<Companion> {
    let kubeconfig = cluster.service_account_kubeconfig(rbac::NAMESPACE, rbac::ACCOUNT).await?;
    let environment = [
        ("KUBECONFIG".to_owned(), kubeconfig.display().to_string()),
        // As it is deployed, but at any port.
        ("ENSEMBLE_METRICS_BIND_ADDRESS".to_owned(), "127.0.0.1:0".to_owned()),
    ];
    cluster.companion("manager", program, flags, &environment)
}

/// An address of this machine that nobody has.
pub(crate) fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").context("this machine has no free port")?;
    Ok(listener.local_addr()?)
}

/// The ServiceAccount that the manager runs as, as the audit log names it.
pub(crate) fn user() -> String {
    format!("system:serviceaccount:{}:{}", rbac::NAMESPACE, rbac::ACCOUNT)
}
