//! Letting go of the cluster: when that is asked for, and on a stop that is for good.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use operator_core::{Environment, client::Clients, error::chain, kind::is_deleting};
use operator_runtime::{
    connect::connect,
    release::{Report, release, until_no_manager_runs},
};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::Flags;

/// What the requests of this part call themselves.
const AGENT: &str = "release";
/// How long the look at the manager's own namespace may take: with a stop that is not for good it is all there is.
const LOOK: Duration = Duration::from_secs(2);
/// How long it may take to let go. With the time for a drain before it, less than the 30 s after which a kubelet kills.
const LIMIT: Duration = Duration::from_secs(20);

/// `ensemble-manager release`: waits for managers to end, and does what they would otherwise undo.
///
/// # Errors
/// When managers have not ended after `patience`; nothing has been done then. When the API server cannot be reached, or
/// did not let something be done; what it was has been logged.
pub(crate) async fn run(flags: &Flags, patience: Duration) -> Result<()> {
    let client = Clients::new(connect().await?).named(AGENT);
    if !patience.is_zero() {
        until_no_manager_runs(&client, &flags.namespace, patience).await?;
    }
    let Report { done, failed } = release(&client, &flags.controllers, &flags.scope).await;
    ensure!(failed.is_empty(), "{} things hold the cluster still: see the warnings above", failed.len());
    info!(count = done.len(), "nothing holds the cluster any more");
    Ok(())
}

/// Lets go of the cluster if the manager's namespace is being deleted: no other will come after this one. Whatever goes
/// wrong is logged, and the process ends in time.
pub(crate) async fn if_removed(flags: &Flags, environment: &Environment) {
    let client = environment.clients.named(AGENT);
    if !is_namespace_deleted(&client, &flags.namespace).await {
        return;
    }
    info!(namespace = %flags.namespace, "the manager's namespace is being deleted, so it lets go of the cluster");
    match timeout(LIMIT, release(&client, &flags.controllers, &flags.scope)).await {
        Ok(Report { done, failed }) if failed.is_empty() => {
            info!(count = done.len(), "nothing holds the cluster any more");
        }
        Ok(Report { failed, .. }) => {
            warn!(count = failed.len(), "something holds the cluster still; run `ensemble-manager release`");
        }
        Err(_elapsed) => {
            warn!(wait = ?LIMIT, "there was no time to let go of everything; run `ensemble-manager release`");
        }
    }
}

async fn is_namespace_deleted(client: &Client, name: &str) -> bool {
    let namespaces = Api::<Namespace>::all(client.clone());
    let error = match timeout(LOOK, namespaces.get_metadata_opt(name)).await {
        Ok(Ok(namespace)) => return namespace.is_some_and(|namespace| is_deleting(&namespace)),
        Ok(Err(error)) => chain(&error),
        Err(_elapsed) => format!("no answer within {LOOK:?}"),
    };
    warn!(
        namespace = %name,
        %error,
        "cannot see whether this stop is for good; if it is, run `ensemble-manager release`"
    );
    false
}
