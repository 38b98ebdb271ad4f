//! Finding the API server.

use anyhow::{Context, Result};
use kube::{Client, Config};

/// A client for the cluster that the environment names: `KUBECONFIG` or `~/.kube/config`, else the
/// ServiceAccount of the pod that this process runs in. Sends nothing yet.
///
/// # Errors
/// When neither is there, or the kubeconfig cannot be read.
pub async fn connect() -> Result<Client> {
    let config = Config::infer().await.context(
        "no usable cluster configuration; set KUBECONFIG to a valid kubeconfig, or run in a pod with a ServiceAccount",
    )?;
    Client::try_from(config).context("the cluster configuration cannot be used")
}
