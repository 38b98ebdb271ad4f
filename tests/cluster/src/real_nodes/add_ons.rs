//! What clusters with real nodes run: DNS, volumes, and metrics.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, runtime::wait::conditions::is_deployment_completed};

use crate::{Cluster, wait};

/// Far longer than a busy machine needs.
const PATIENCE: Duration = Duration::from_mins(2);

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
///
/// The wait starts no program, which could outlive a launcher that is killed.
pub(crate) async fn wait(cluster: &Cluster) -> Result<()> {
    let client = cluster.client().await?;
    for (namespace, name) in [("kube-system", "coredns"), ("local-path-storage", "local-path-provisioner")] {
        let deployments = Api::<Deployment>::namespaced(client.clone(), namespace);
        wait::condition(&deployments, name, "to be rolled out", PATIENCE, is_deployment_completed()).await?;
    }
    Ok(())
}
