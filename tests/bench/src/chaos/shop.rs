//! The PostgresCluster.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use cluster::{Cluster, wait::eventually};
use k8s_openapi::api::core::v1::{Node, Pod, Secret, Service};
use kube::{Api, Client, api::ListParams};
use operator_core::conditions::is_true;
use postgres::{PORT, PostgresCluster, PostgresClusterStatus};

use super::NODES;

/// Namespace of the cluster.
pub(super) const NAMESPACE: &str = "chaos";
/// How long the cluster may take to recover from a fault.
const PATIENCE: Duration = Duration::from_mins(6);

/// Clients connect from the nodes, which are no Pods of the namespace, and from a Pod.
const MANIFEST: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: chaos, labels: {pod-security.kubernetes.io/enforce: restricted}}
---
apiVersion: lukeb0nd.com/v1
kind: PostgresCluster
metadata: {name: shop, namespace: chaos}
spec:
  size: 3
  version: 15
  antiAffinity: true
  storage: {size: 1Gi}
  resources: {limits: {memory: 512Mi}, requests: {cpu: 100m, memory: 256Mi}}
  networkPolicy: {clients: [{ipBlock: {cidr: 0.0.0.0/0}}, {podSelector: {}}]}
";

/// A PostgresCluster of three members on three nodes.
pub(super) struct Shop {
    pub(super) cluster: Arc<Cluster>,
    client: Client,
}

impl Shop {
    pub(super) async fn create(cluster: Arc<Cluster>) -> Result<Self> {
        cluster.apply_yaml(MANIFEST).await?;
        let client = cluster.client().await?;
        let shop = Self { cluster, client };
        shop.until_complete().await?;
        Ok(shop)
    }

    /// Runs kubectl in the namespace.
    pub(super) async fn run(&self, args: &[&str]) -> Result<String> {
        self.cluster.kubectl(&[&["--namespace", NAMESPACE], args].concat()).await
    }

    /// Changes the PostgresCluster.
    pub(super) async fn patch(&self, patch: &str) -> Result<()> {
        self.run(&["patch", "pgc", "shop", "--type=merge", "--patch", patch]).await.map(drop)
    }

    async fn status(&self) -> Result<(PostgresClusterStatus, bool)> {
        let cluster = Api::<PostgresCluster>::namespaced(self.client.clone(), NAMESPACE).get("shop").await?;
        let status = cluster.status.unwrap_or_default();
        let is_current = status.observed_generation == cluster.metadata.generation;
        Ok((status, is_current))
    }

    /// Returns the primary. There is one when the cluster is complete.
    pub(super) async fn primary(&self) -> Result<String> {
        Ok(self.status().await?.0.primary.current)
    }

    /// Waits until another member is the primary. Returns it.
    pub(super) async fn until_other_primary(&self, former: &str) -> Result<String> {
        eventually("another primary", PATIENCE, async || {
            let primary = self.primary().await?;
            Ok(if !primary.is_empty() && primary != former { Ok(primary) } else { Err(primary) })
        })
        .await
    }

    /// Returns the members.
    pub(super) async fn members(&self) -> Result<Vec<String>> {
        let instances = self.status().await?.0.instances;
        Ok(instances.into_iter().map(|instance| instance.name).collect())
    }

    /// Returns one of the members.
    pub(super) async fn member(&self, number: usize) -> Result<String> {
        let members = self.members().await?;
        let place = number.checked_rem(members.len()).context("there are no members")?;
        members.into_iter().nth(place).context("there is no such member")
    }

    /// Returns a standby.
    pub(super) async fn standby(&self) -> Result<String> {
        let (primary, members) = (self.primary().await?, self.members().await?);
        members.into_iter().find(|name| *name != primary).context("there is no standby")
    }

    /// Returns the node of a member.
    pub(super) async fn node(&self, member: &str) -> Result<String> {
        let pod = Api::<Pod>::namespaced(self.client.clone(), NAMESPACE).get(member).await?;
        pod.spec.and_then(|spec| spec.node_name).context("the Pod has no node")
    }

    /// Returns the address of a Service.
    pub(super) async fn address(&self, service: &str) -> Result<SocketAddr> {
        let service = Api::<Service>::namespaced(self.client.clone(), NAMESPACE).get(service).await?;
        let address = service.spec.and_then(|spec| spec.cluster_ip).context("the Service has no address")?;
        Ok(SocketAddr::new(address.parse()?, u16::try_from(PORT)?))
    }

    /// Returns the password of the application.
    pub(super) async fn password(&self) -> Result<Vec<u8>> {
        let secret = Api::<Secret>::namespaced(self.client.clone(), NAMESPACE).get("shop-app").await?;
        let password = secret.data.and_then(|mut data| data.remove("password"));
        Ok(password.context("the Secret has no password")?.0)
    }

    /// Returns the nodes that are not ready, and why.
    async fn unready_nodes(&self) -> Result<Vec<String>> {
        let nodes = Api::<Node>::all(self.client.clone()).list(&ListParams::default()).await?;
        let unready = NODES.iter().filter_map(|name| {
            let node = nodes.iter().find(|node| node.metadata.name.as_deref() == Some(*name));
            let conditions = node.and_then(|node| node.status.as_ref()?.conditions.as_ref());
            let ready = conditions.into_iter().flatten().find(|condition| condition.type_ == "Ready");
            let message = ready.and_then(|ready| ready.message.as_deref()).unwrap_or_default();
            let is_ready = ready.is_some_and(|ready| ready.status == "True");
            (!is_ready).then(|| format!("{name}: {message}"))
        });
        Ok(unready.collect())
    }

    /// Returns why a command cannot run in all of these members. The kubelet reports a node as ready although
    /// containerd does not answer yet.
    async fn unreachable(&self, status: &PostgresClusterStatus) -> Option<String> {
        for instance in &status.instances {
            let executed = self.run(&["exec", &instance.name, "--container=postgres", "--", "true"]).await;
            if let Err(error) = executed {
                return Some(format!("{error:#}"));
            }
        }
        None
    }

    /// Waits until all members and nodes work, and a commit waits for a standby.
    pub(super) async fn until_complete(&self) -> Result<()> {
        eventually("the PostgresCluster to be complete", PATIENCE, async || {
            let (status, is_current) = self.status().await?;
            let unready_nodes = self.unready_nodes().await?;
            let is_ready = is_true(&status.conditions, "Ready") && is_true(&status.conditions, "DataSafe");
            let has_all = usize::try_from(status.ready_members).is_ok_and(|ready| ready == NODES.len());
            let has_members = is_current && is_ready && has_all && status.reigns.len() == 1;
            let is_complete = has_members && unready_nodes.is_empty();
            let unreachable = if is_complete { self.unreachable(&status).await } else { None };
            Ok(if is_complete && unreachable.is_none() {
                Ok(())
            } else {
                Err((unreachable, unready_nodes, status))
            })
        })
        .await
    }
}
