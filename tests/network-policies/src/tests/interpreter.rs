//! Interprets chains, as nftables does.

use std::net::Ipv4Addr;

use super::reference::Connection;
use crate::chains::{Chain, Chains, Peers, Ports, Rule};

/// Returns whether the first packet of a connection passes the forward chain of a node.
pub(super) fn passes(chains: &Chains, connection: &Connection) -> bool {
    let Connection { source, destination, .. } = *connection;
    let egress = chains.egress.get(&source).is_none_or(|chain| returns(chain, destination, connection));
    let ingress = chains.ingress.get(&destination).is_none_or(|chain| returns(chain, source, connection));
    egress && ingress
}

fn returns(chain: &Chain, peer: Ipv4Addr, connection: &Connection) -> bool {
    chain.rules.iter().any(|rule| matches(rule, peer, connection))
}

fn matches(rule: &Rule, peer: Ipv4Addr, connection: &Connection) -> bool {
    let peer_matches = match &rule.peers {
        Peers::Any => true,
        Peers::Addresses(addresses) => addresses.iter().any(|address| *address == peer),
        Peers::Block { cidr, except } => {
            cidr.contains(peer) && except.iter().all(|part| !part.contains(peer))
        }
    };
    let port_matches = match rule.ports {
        Ports::Any => true,
        Ports::All(protocol) => format!("{protocol:?}").to_uppercase() == connection.protocol,
        Ports::Range { protocol, first, last } => {
            let protocol = format!("{protocol:?}").to_uppercase();
            protocol == connection.protocol && first <= connection.port && connection.port <= last
        }
    };
    peer_matches && port_matches
}
