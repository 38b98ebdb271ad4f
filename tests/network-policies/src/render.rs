//! Renders chains as a script for nft.

use std::{
    collections::BTreeMap,
    fmt::{Display, Write},
    net::Ipv4Addr,
};

use crate::chains::{Chain, Chains, Peers, Ports, Protocol, Rule};

/// The text around the chains. The first two lines delete a table even if none exists.
const HEADER: &str = "\
table ip network-policies
delete table ip network-policies
table ip network-policies {
";

/// The beginning of the chain that sees every forwarded packet, after the addresses of Services are translated.
const FORWARD: &str = "  chain forward {
    type filter hook forward priority 10; policy accept;
    ct state established,related accept
";

/// One of the two directions, as nft names its parts.
struct Direction {
    /// Prefix of the names of chains.
    name: &'static str,
    /// Field with the address of the Pod.
    pod: &'static str,
    /// Field with the address of the peer.
    peer: &'static str,
}

const EGRESS: Direction = Direction { name: "egress", pod: "saddr", peer: "daddr" };
const INGRESS: Direction = Direction { name: "ingress", pod: "daddr", peer: "saddr" };

/// Returns the script that replaces the table in one transaction.
pub(crate) fn render(chains: &Chains) -> String {
    let mut script = HEADER.to_owned();
    for (direction, chains) in [(EGRESS, &chains.egress), (INGRESS, &chains.ingress)] {
        script.extend(chains.iter().map(|(address, chain)| pod_chain(&direction, *address, chain)));
    }
    script += FORWARD;
    script += &verdict_map(&EGRESS, &chains.egress);
    script += &verdict_map(&INGRESS, &chains.ingress);
    script += "  }\n}\n";
    script
}

/// Returns the chain of a Pod. It returns to the forward chain, because the other side is judged as well.
fn pod_chain(direction: &Direction, address: Ipv4Addr, chain: &Chain) -> String {
    let mut text = format!("  chain {}-{address} {{ # {}\n", direction.name, chain.pod);
    text.extend(chain.rules.iter().map(|rule| format!("    {}return\n", matches(direction.peer, rule))));
    text += "    counter drop\n  }\n";
    text
}

/// Returns the rule that sends packets to the chains of their Pods, or nothing without chains.
fn verdict_map(direction: &Direction, chains: &BTreeMap<Ipv4Addr, Chain>) -> String {
    if chains.is_empty() {
        return String::new();
    }
    let mut text = format!("    ip {} vmap {{\n", direction.pod);
    for address in chains.keys() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "      {address} : jump {}-{address},", direction.name);
    }
    text += "    }\n";
    text
}

/// Returns the conditions of a rule, with a space at the end of each.
fn matches(peer: &str, rule: &Rule) -> String {
    format!("{}{}", peer_matches(peer, &rule.peers), port_match(rule.ports))
}

fn peer_matches(peer: &str, peers: &Peers) -> String {
    match peers {
        Peers::Any => String::new(),
        Peers::Addresses(addresses) => format!("ip {peer} {} ", set(addresses)),
        Peers::Block { cidr, except } => {
            // A block of all addresses needs no condition.
            let included = if cidr.is_everything() { String::new() } else { format!("ip {peer} {cidr} ") };
            let excluded =
                if except.is_empty() { String::new() } else { format!("ip {peer} != {} ", set(except)) };
            included + &excluded
        }
    }
}

fn port_match(ports: Ports) -> String {
    match ports {
        Ports::Any => String::new(),
        Ports::All(protocol) => format!("meta l4proto {} ", name(protocol)),
        Ports::Range { protocol, first, last } if first == last => {
            format!("{} dport {first} ", name(protocol))
        }
        Ports::Range { protocol, first, last } => format!("{} dport {first}-{last} ", name(protocol)),
    }
}

fn name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Sctp => "sctp",
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
    }
}

fn set<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<_> = items.into_iter().map(|item| item.to_string()).collect();
    format!("{{ {} }}", items.join(", "))
}
