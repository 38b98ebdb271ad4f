//! Installs the manager in Pods of a cluster with real nodes, as users do.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, Result};
use cluster::{Cluster, program::workspace, wait::eventually};
use manager::NAMESPACE;

/// Timeout until the replicas of the manager are Ready.
const TIMEOUT: Duration = Duration::from_mins(2);

/// Loads the archive of `cargo xtask image`, applies `deploy/install.yaml`, and waits until all
/// replicas of the manager are Ready.
///
/// # Errors
/// Returns an error if the archive cannot be loaded, or if the replicas are not Ready in time.
pub async fn install(cluster: &Cluster, archive: &Path) -> Result<()> {
    cluster.load_image(archive)?;
    let path = workspace().join("deploy/install.yaml");
    let manifests = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    // An object is rejected until the API server serves its kind.
    let apply = async || Ok(cluster.apply_yaml(&manifests).await.map_err(|error| format!("{error:#}")));
    eventually("deploy/install.yaml to be applied", TIMEOUT, apply).await?;
    let timeout = format!("--timeout={}s", TIMEOUT.as_secs());
    let rollout = ["--namespace", NAMESPACE, "rollout", "status", "deployment/ensemble-manager", &timeout];
    cluster.kubectl(&rollout).await?;
    Ok(())
}
