//! Pods with an address of their own.

use std::{borrow::Borrow, cmp::Reverse, collections::BTreeMap, net::Ipv4Addr};

use k8s_openapi::api::core::v1::{ContainerPort, Pod, PodSpec, PodStatus};
use kube::ResourceExt;

use crate::chains::Protocol;

/// A Pod that can send and receive packets.
#[derive(Clone, Copy)]
pub(crate) struct Endpoint<'a> {
    /// The IPv4 address of the Pod.
    pub(crate) address: Ipv4Addr,
    /// The Pod.
    pub(crate) pod: &'a Pod,
}

impl Endpoint<'_> {
    /// Returns whether the Pod is in the namespace.
    pub(crate) fn is_in(&self, namespace: &str) -> bool {
        self.pod.metadata.namespace.as_deref() == Some(namespace)
    }

    /// Returns whether the Pod is on the node.
    pub(crate) fn is_on(&self, node: &str) -> bool {
        self.pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_deref() == Some(node))
    }

    /// Returns namespace and name of the Pod.
    pub(crate) fn full_name(&self) -> String {
        format!("{}/{}", self.pod.namespace().unwrap_or_default(), self.pod.name_any())
    }

    /// Returns the number of a named container port.
    pub(crate) fn port(&self, name: &str, protocol: Protocol) -> Option<u16> {
        let spec = self.pod.spec.as_ref()?;
        let is_named = |port: &&ContainerPort| {
            port.name.as_deref() == Some(name) && Protocol::named(port.protocol.as_deref()) == Some(protocol)
        };
        let port = container_ports(spec).find(is_named)?;
        u16::try_from(port.container_port).ok()
    }
}

/// Returns the ports of all containers that run as long as the Pod: containers, then sidecars.
fn container_ports(spec: &PodSpec) -> impl Iterator<Item = &ContainerPort> {
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten())
}

/// Returns the Pods that have an IPv4 address of their own, by that address.
///
/// If several Pods claim an address, the newest one has it: the kubelet reports late that a Pod ended.
pub(crate) fn endpoints<P: Borrow<Pod>>(pods: &[P]) -> BTreeMap<Ipv4Addr, Endpoint<'_>> {
    let mut endpoints: Vec<_> = pods.iter().filter_map(|pod| endpoint(pod.borrow())).collect();
    endpoints.sort_by_cached_key(|endpoint| {
        let metadata = &endpoint.pod.metadata;
        let created = metadata.creation_timestamp.as_ref().map(|time| time.0);
        (Reverse(metadata.deletion_timestamp.is_some()), created, endpoint.full_name())
    });
    endpoints.into_iter().map(|endpoint| (endpoint.address, endpoint)).collect()
}

/// Returns the endpoint of a Pod, unless the Pod ended, has no address yet, or uses the node's.
fn endpoint(pod: &Pod) -> Option<Endpoint<'_>> {
    let status = pod.status.as_ref()?;
    let has_own_network = pod.spec.as_ref()?.host_network != Some(true);
    let runs = matches!(status.phase.as_deref(), Some("Running" | "Pending"));
    let address = address(status).filter(|_| has_own_network && runs)?;
    Some(Endpoint { address, pod })
}

/// Returns the IPv4 address of a Pod.
fn address(status: &PodStatus) -> Option<Ipv4Addr> {
    let others = status.pod_ips.iter().flatten().map(|ip| ip.ip.as_str());
    status.pod_ip.as_deref().into_iter().chain(others).find_map(|address| address.parse().ok())
}
