//! The chains of a node, independent of their text.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use crate::cidr::Cidr;

/// The chains of the Pods on a node. Only Pods that a policy selects have one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chains {
    /// The chains for packets that a Pod sends, by the address of the Pod.
    pub(crate) egress: BTreeMap<Ipv4Addr, Chain>,
    /// The chains for packets that a Pod receives, by the address of the Pod.
    pub(crate) ingress: BTreeMap<Ipv4Addr, Chain>,
}

/// The rules of one Pod in one direction. A packet that no rule matches is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// Namespace and name of the Pod.
    pub(crate) pod: String,
    /// Packets that are allowed.
    pub(crate) rules: BTreeSet<Rule>,
}

impl Chain {
    /// Creates a chain for a Pod, which can always connect to itself.
    pub(crate) fn new(pod: String, address: Ipv4Addr) -> Self {
        let itself = Rule { peers: Peers::Addresses([address].into()), ports: Ports::Any };
        Self { pod, rules: [itself].into() }
    }
}

/// Allows packets of some peers on some ports.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rule {
    /// The other side: the destination of egress, the source of ingress.
    pub(crate) peers: Peers,
    /// The destination ports.
    pub(crate) ports: Ports,
}

/// The addresses that a rule matches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Peers {
    /// Every address.
    Any,
    /// The addresses of Pods.
    Addresses(BTreeSet<Ipv4Addr>),
    /// An address block without some parts, which do not overlap.
    Block { cidr: Cidr, except: BTreeSet<Cidr> },
}

impl Peers {
    /// Returns whether the address is one of the peers.
    pub(crate) fn contains(&self, address: Ipv4Addr) -> bool {
        match self {
            Self::Any => true,
            Self::Addresses(addresses) => addresses.contains(&address),
            Self::Block { cidr, except } => {
                cidr.contains(address) && !except.iter().any(|part| part.contains(address))
            }
        }
    }
}

/// The destination ports that a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ports {
    /// Every port of every protocol, and protocols without ports.
    Any,
    /// Every port of one protocol.
    All(Protocol),
    /// The ports from the first to the last, both included.
    Range { protocol: Protocol, first: u16, last: u16 },
}

/// A transport protocol that a policy can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protocol {
    Sctp,
    Tcp,
    Udp,
}

impl Protocol {
    /// Returns the protocol of the API's name, which defaults to TCP, or `None` if it is unknown.
    pub(crate) fn named(name: Option<&str>) -> Option<Self> {
        match name.unwrap_or("TCP") {
            "SCTP" => Some(Self::Sctp),
            "TCP" => Some(Self::Tcp),
            "UDP" => Some(Self::Udp),
            _ => None,
        }
    }
}
