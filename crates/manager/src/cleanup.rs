//! Cleanup of the cluster, by the command `cleanup` or when the manager's namespace is deleted.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use operator_core::{Environment, client::Clients, error::chain, kind::is_deleting};
use operator_runtime::{
    cleanup::{Report, clean_up, wait_for_managers_to_stop},
    connect::connect,
};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::Flags;

/// Name in the `User-Agent` of the requests.
const AGENT: &str = "cleanup";
/// Timeout of the request for the manager's own namespace, the only request of an ordinary stop.
const NAMESPACE_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of the cleanup when the namespace is deleted. Together with the drain before it, this is
/// less than the default termination grace period of 30 s.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(20);

/// Runs `ensemble-manager cleanup`: waits up to `wait` until no manager runs, then cleans up.
///
/// With a `wait` of zero, it does not check whether managers run.
///
/// # Errors
/// Returns an error if managers still run after `wait`, before anything has been changed. Returns
/// an error if the API server cannot be reached or a cleanup step failed; each failed step is
/// logged.
pub(crate) async fn run(flags: &Flags, wait: Duration) -> Result<()> {
    let client = Clients::new(connect().await?).named(AGENT);
    if !wait.is_zero() {
        wait_for_managers_to_stop(&client, &flags.namespace, wait).await?;
    }
    let Report { changes, errors } = clean_up(&client, &flags.controllers, &flags.scope).await;
    ensure!(
        errors.is_empty(),
        "cleanup is incomplete: {} steps failed; see the warnings above",
        errors.len()
    );
    info!(count = changes.len(), "cleanup is complete");
    Ok(())
}

/// Cleans up if the manager's namespace is being deleted, because no other manager will run in it.
/// Errors are logged. Returns within 22 s.
pub(crate) async fn run_if_namespace_deleted(flags: &Flags, environment: &Environment) {
    let client = environment.clients.named(AGENT);
    if !is_namespace_deleted(&client, &flags.namespace).await {
        return;
    }
    info!(namespace = %flags.namespace, "the manager's namespace is being deleted; cleaning up");
    match timeout(CLEANUP_TIMEOUT, clean_up(&client, &flags.controllers, &flags.scope)).await {
        Ok(Report { changes, errors }) if errors.is_empty() => {
            info!(count = changes.len(), "cleanup is complete");
        }
        Ok(Report { errors, .. }) => {
            warn!(count = errors.len(), "cleanup is incomplete; run `ensemble-manager cleanup`");
        }
        Err(_elapsed) => {
            warn!(wait = ?CLEANUP_TIMEOUT, "cleanup timed out; run `ensemble-manager cleanup`");
        }
    }
}

async fn is_namespace_deleted(client: &Client, name: &str) -> bool {
    let namespaces = Api::<Namespace>::all(client.clone());
    let error = match timeout(NAMESPACE_TIMEOUT, namespaces.get_metadata_opt(name)).await {
        Ok(Ok(namespace)) => return namespace.is_some_and(|namespace| is_deleting(&namespace)),
        Ok(Err(error)) => chain(&error),
        Err(_elapsed) => format!("no response within {NAMESPACE_TIMEOUT:?}"),
    };
    warn!(
        namespace = %name,
        %error,
        "cannot read the manager's namespace; if the manager is being uninstalled, run `ensemble-manager cleanup`"
    );
    false
}
