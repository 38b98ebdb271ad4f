//! Enforces NetworkPolicies on the nodes of a test cluster, with nftables.
//!
//! No network plugin that enforces NetworkPolicies is needed. [`ruleset`] compiles the policies of
//! a cluster into a script for one node, and [`enforce`] applies it whenever it changes.
//!
//! # Requirements
//!
//! - Pods have IPv4 addresses.
//! - The node routes the packets of its Pods, as the CNI plugin `ptp` does. A bridge only shows
//!   packets between Pods of the same node to nftables with
//!   `net.bridge.bridge-nf-call-iptables=1`.
//! - No address is translated between the Pod and the forward hook of its node, except for the
//!   destination of a Service.
//!
//! # Guarantees
//!
//! All fields of `networking.k8s.io/v1` are enforced, with these interpretations of what the API
//! leaves open:
//!
//! - A Pod and its own node can always connect to each other, and a Pod to itself.
//! - Replies to allowed connections are allowed.
//! - A rule without ports allows all protocols. A rule with ports does not allow ICMP.
//! - A Pod on the node's network is not selected by any selector. Only `ipBlock` matches its
//!   address.
//! - `ipBlock` matches the addresses of Pods, too.
//! - A named port of an egress rule is resolved on each destination Pod, also with `ipBlock` and
//!   without peers.
//! - An address block that is not IPv4 matches nothing.
//!
//! # Known differences
//!
//! - IPv6 is not restricted.
//! - An established connection continues when a policy changes. New connections are judged by the
//!   new policy.
//! - A new Pod is not restricted until its address is in its status and the next pass is done. See
//!   [`enforce`] for how long that takes.
//! - A kernel without connection tracking for SCTP treats all SCTP packets between two addresses as
//!   one connection.

mod chains;
mod cidr;
mod compile;
mod endpoints;
mod enforce;
mod render;
#[cfg(test)]
mod tests;

use std::borrow::Borrow;

pub use enforce::enforce;
use k8s_openapi::api::{
    core::v1::{Namespace, Pod},
    networking::v1::NetworkPolicy,
};

/// Returns a script for `nft -f -` that enforces the policies for the Pods on a node.
///
/// The script replaces the table `ip network-policies` in one transaction. The same state results
/// in the same script, in whatever order the objects are.
///
/// `pods` are the Pods of the whole cluster. Those that ended, have no IPv4 address, or use the
/// node's network are ignored. The drop rule of each Pod counts packets; counters start again when
/// the script is applied.
pub fn ruleset(
    node: &str,
    pods: &[impl Borrow<Pod>],
    namespaces: &[impl Borrow<Namespace>],
    policies: &[impl Borrow<NetworkPolicy>],
) -> String {
    render::render(&compile::compile(node, pods, namespaces, policies))
}
