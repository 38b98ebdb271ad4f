//! Shows what an owner of a Tenant sees through the proxy.

use std::{path::PathBuf, time::Duration};

use anyhow::Result;
use cluster::{Cluster, wait::eventually};
use local_manager::proxy::LocalProxy;

/// Owner of the sample Tenant.
const OWNER: &str = "alice";

/// Writes the owner's kubeconfig, and waits until the owner sees namespaces.
///
/// Returns the path of the kubeconfig, and the names of the namespaces.
pub(crate) async fn namespaces_of_owner(
    cluster: &Cluster,
    proxy: &LocalProxy,
    timeout: Duration,
) -> Result<(PathBuf, String)> {
    let server = format!("https://{}", proxy.address);
    let token = cluster.user_token(OWNER)?;
    let kubeconfig = cluster.kubeconfig_through(OWNER, &token, &server, &proxy.authority)?;
    let names = ["get", "namespaces", "--output=jsonpath={.items[*].metadata.name}"];
    let seen = eventually("the owner of a Tenant to see namespaces", timeout, async || {
        let names = cluster.kubectl_with(&kubeconfig, &names).await.map_err(|error| format!("{error:#}"));
        Ok(names.and_then(|names| if names.is_empty() { Err("none yet".to_owned()) } else { Ok(names) }))
    })
    .await?;
    Ok((kubeconfig, seen))
}

/// Returns a sentence about what the owner sees.
pub(crate) fn sentence(seen: &str) -> String {
    format!("{OWNER} sees these namespaces through the proxy: {seen}")
}
