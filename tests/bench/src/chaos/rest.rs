//! What the PostgresCluster costs while nothing changes.

use anyhow::Result;
use cluster::Cluster;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt, api::ListParams};
use manager::NAMESPACE as MANAGER;

use super::shop::{NAMESPACE, Shop};
use crate::{
    postgres::rest::{Process, measure_processes},
    real::SELECTOR,
};

/// Prints the memory and the CPU time of the instance managers and of the manager, and all requests about the
/// cluster.
pub(super) async fn measure(shop: &Shop, seconds: u64) -> Result<()> {
    let mut processes = Vec::new();
    for member in shop.members().await? {
        let label = format!("instance manager of {member} at rest");
        processes.push(process(&shop.cluster, label, NAMESPACE, &member).await?);
    }
    let pods = Api::<Pod>::namespaced(shop.cluster.client().await?, MANAGER);
    for pod in pods.list(&ListParams::default().labels(SELECTOR)).await? {
        let label = format!("{} at rest", pod.name_any());
        processes.push(process(&shop.cluster, label, MANAGER, &pod.name_any()).await?);
    }
    measure_processes(&shop.cluster, &processes, NAMESPACE, seconds).await
}

/// Returns the first process of a Pod.
async fn process(cluster: &Cluster, label: String, namespace: &str, pod: &str) -> Result<Process> {
    Ok(Process { label, pid: cluster.container_usage(namespace, pod).await?.pid()? })
}
