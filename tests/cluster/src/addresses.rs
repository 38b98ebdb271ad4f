//! Addresses in the network of the real nodes. They are the same in each cluster: every cluster has
//! a network of its own.

use std::net::Ipv4Addr;

/// The switch, where Pods find the API server and nodes find the registry.
pub(crate) const SWITCH: Ipv4Addr = Ipv4Addr::new(10, 89, 0, 1);
/// Port of the API server at the switch.
pub(crate) const API_SERVER_PORT: u16 = 6443;
/// Port of the registry at the switch.
pub(crate) const REGISTRY_PORT: u16 = 5000;
/// Service of the DNS server.
pub(crate) const DNS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
/// All Pods of real nodes.
pub(crate) const PODS: &str = "10.244.0.0/16";
/// First address and range of simulated Pods in a cluster that also has real nodes.
pub(crate) const SIMULATED_PODS: &str = "10.245.0.1/16";
/// Largest number of real nodes.
pub const MAX_REAL_NODES: usize = 20;

/// Returns the address of the node with this index.
pub(crate) fn node(index: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 89, 0, 11_u8.saturating_add(u8::try_from(index).unwrap_or(u8::MAX)))
}

/// Returns the range of the Pods on the node with this index.
pub(crate) fn pods(index: usize) -> String {
    format!("10.244.{index}.0/24")
}
