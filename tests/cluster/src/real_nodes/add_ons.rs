//! What clusters with real nodes run: DNS, volumes, and metrics.

use anyhow::Result;

use crate::Cluster;

/// The API server's Service first: the other add-ons use it.
const MANIFESTS: [&str; 4] = [
    include_str!("../../manifests/real-nodes/api-server.yaml"),
    include_str!("../../manifests/real-nodes/dns.yaml"),
    include_str!("../../manifests/real-nodes/storage.yaml"),
    include_str!("../../manifests/real-nodes/metrics.yaml"),
];

/// Applies the add-ons. Does not wait until they are ready.
pub(crate) async fn apply(cluster: &Cluster) -> Result<()> {
    cluster.apply_yaml(&MANIFESTS.join("\n---\n")).await?;
    Ok(())
}

/// Waits until DNS answers and volumes can be created. Metrics follow some seconds later.
pub(crate) async fn wait(cluster: &Cluster) -> Result<()> {
    let timeout = "--timeout=120s";
    for (namespace, name) in [("kube-system", "coredns"), ("local-path-storage", "local-path-provisioner")] {
        let deployment = format!("deployment/{name}");
        cluster.kubectl(&["-n", namespace, "rollout", "status", &deployment, timeout]).await?;
    }
    Ok(())
}
