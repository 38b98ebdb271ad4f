//! Starts the manager on a test cluster with its generated permissions.

use std::{path::Path, time::Duration};

use anyhow::Result;
use cluster::{Cluster, Companion, program::workspace, reserve_address, wait::eventually};
use manager::{ACCOUNT, CONTROLLERS, NAMESPACE};

use crate::{
    Webhooks,
    crds::{definitions, install},
};

/// Timeout until the webhooks of a manager respond.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Prepares the cluster, and starts the manager as its ServiceAccount.
pub async fn start_manager(cluster: &Cluster, program: &Path) -> Result<Companion> {
    prepare(cluster).await?;
    launch(cluster, program, "0").await
}

/// Starts the manager like [`start_manager`], registers its webhooks, and waits until they respond.
pub async fn start_manager_with_webhooks(cluster: &Cluster, program: &Path) -> Result<Companion> {
    prepare(cluster).await?;
    let address = reserve_address()?;
    let host = address.ip().to_string();
    let flags = [
        "--health-probe-bind-address=0".to_owned(),
        format!("--webhook-bind-address={address}"),
        format!("--webhook-host={host}"),
    ];
    let running = launch_with_flags(cluster, program, &flags).await?;
    Webhooks::new(cluster.client().await?, CONTROLLERS, address, &host).register().await?;
    let sample = workspace().join("samples/tenant.yaml").display().to_string();
    let create = ["create", "--dry-run=server", "-f", &sample];
    eventually("the webhooks to respond", TIMEOUT, async || cluster.kubectl(&create).await.map(|_| true))
        .await?;
    Ok(running)
}

/// Installs the CustomResourceDefinitions, and applies `deploy/rbac`.
pub async fn prepare(cluster: &Cluster) -> Result<()> {
    install(&cluster.client().await?, &definitions()).await?;
    let rbac = workspace().join("deploy/rbac").display().to_string();
    cluster.kubectl(&["apply", "--server-side", "-f", &rbac]).await?;
    Ok(())
}

/// Starts a manager on a prepared cluster. `probes` is the address of its health probes, or `0`.
pub async fn launch(cluster: &Cluster, program: &Path, probes: &str) -> Result<Companion> {
    // It serves its webhooks, but they are not registered.
    let flags =
        [format!("--health-probe-bind-address={probes}"), "--webhook-bind-address=127.0.0.1:0".to_owned()];
    launch_with_flags(cluster, program, &flags).await
}

/// Starts a manager with these flags on a prepared cluster.
pub async fn launch_with_flags(cluster: &Cluster, program: &Path, flags: &[String]) -> Result<Companion> {
    let kubeconfig = cluster.service_account_kubeconfig(NAMESPACE, ACCOUNT).await?;
    let environment = [
        ("KUBECONFIG".to_owned(), kubeconfig.display().to_string()),
        // The metrics are served as in a deployment, but on any free port.
        ("ENSEMBLE_METRICS_BIND_ADDRESS".to_owned(), "127.0.0.1:0".to_owned()),
    ];
    cluster.companion("manager", program, flags, &environment)
}

/// Returns the user name of the manager's ServiceAccount.
pub fn user() -> String {
    format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}")
}
