//! What the PostgresCluster costs while nothing changes.

use anyhow::Result;
use cluster::ContainerUsage;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;

use super::shop::{NAMESPACE, Shop};
use crate::{
    postgres::rest::{Process, measure_processes},
    real::replicas,
};

/// Prints the memory and the CPU time of the instance managers and of the manager, and all requests about the
/// cluster.
pub(super) async fn measure(shop: &Shop, seconds: u64) -> Result<()> {
    let mut processes = Vec::new();
    for member in shop.members().await? {
        let usage = shop.cluster.container_usage(NAMESPACE, &member).await?;
        processes.push(process(&format!("instance manager of {member}"), &usage)?);
    }
    let pods = Api::<Pod>::namespaced(shop.cluster.client().await?, manager::NAMESPACE);
    for replica in replicas(&shop.cluster, &pods).await? {
        processes.push(process(&replica.name, &replica.usage)?);
    }
    measure_processes(&shop.cluster, &processes, NAMESPACE, seconds).await
}

/// Returns the first process of a container.
fn process(what: &str, usage: &ContainerUsage) -> Result<Process> {
    Ok(Process { label: format!("{what} at rest"), pid: usage.pid()? })
}
