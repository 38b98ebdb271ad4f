//! Compiles policies into the chains of a node.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use k8s_openapi::{
    api::{
        core::v1::{Namespace, Pod},
        networking::v1::{IPBlock, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec},
    },
    apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString},
};
use kube::{
    ResourceExt,
    core::{Selector, SelectorExt},
};

use crate::{
    chains::{Chain, Chains, Peers, Ports, Protocol, Rule},
    cidr::Cidr,
    endpoints::{Endpoint, endpoints},
};

/// Returns the chains of the Pods on a node.
pub(crate) fn compile(
    node: &str,
    pods: &[impl Borrow<Pod>],
    namespaces: &[impl Borrow<Namespace>],
    policies: &[impl Borrow<NetworkPolicy>],
) -> Chains {
    let peers = PeerResolver {
        endpoints: endpoints(pods),
        namespaces: namespaces.iter().map(Borrow::borrow).map(|item| (item.name_any(), item)).collect(),
    };
    let mut chains = Chains::default();
    for policy in policies {
        peers.add_policy(node, policy.borrow(), &mut chains);
    }
    chains
}

/// Resolves selectors to addresses.
struct PeerResolver<'a> {
    endpoints: BTreeMap<Ipv4Addr, Endpoint<'a>>,
    namespaces: BTreeMap<String, &'a Namespace>,
}

impl PeerResolver<'_> {
    /// Adds the rules of a policy to the chains of the Pods that it selects.
    fn add_policy(&self, node: &str, policy: &NetworkPolicy, chains: &mut Chains) {
        let Some(spec) = &policy.spec else { return };
        let namespace = policy.namespace().unwrap_or_default();
        let selector = selector(spec.pod_selector.as_ref());
        let is_selected = |endpoint: &&Endpoint<'_>| {
            endpoint.is_on(node) && endpoint.is_in(&namespace) && selects(selector.as_ref(), endpoint.pod)
        };
        let selected: Vec<_> = self.endpoints.values().filter(is_selected).collect();
        if selected.is_empty() {
            return;
        }
        if has_type(spec, "Ingress") {
            self.add_ingress(&namespace, spec, &selected, &mut chains.ingress);
        }
        if has_type(spec, "Egress") {
            self.add_egress(&namespace, spec, &selected, &mut chains.egress);
        }
    }

    /// Adds the ingress rules. A named port is a port of the Pod that the policy selects.
    fn add_ingress(
        &self,
        namespace: &str,
        spec: &NetworkPolicySpec,
        selected: &[&Endpoint<'_>],
        chains: &mut BTreeMap<Ipv4Addr, Chain>,
    ) {
        let rules = spec.ingress.iter().flatten();
        let rules: Vec<_> =
            rules.map(|rule| (self.peers(namespace, rule.from.as_ref()), &rule.ports)).collect();
        for endpoint in selected {
            let chain = chain(chains, endpoint);
            for (peers, ports) in &rules {
                let ports = ingress_ports(endpoint, ports.as_ref());
                chain.rules.extend(product(peers, &ports));
            }
        }
    }

    /// Adds the egress rules. A named port is a port of the Pod that is the destination.
    fn add_egress(
        &self,
        namespace: &str,
        spec: &NetworkPolicySpec,
        selected: &[&Endpoint<'_>],
        chains: &mut BTreeMap<Ipv4Addr, Chain>,
    ) {
        let rules = spec.egress.iter().flatten();
        let rules: BTreeSet<_> = rules
            .flat_map(|rule| self.egress_rules(&self.peers(namespace, rule.to.as_ref()), rule.ports.as_ref()))
            .collect();
        for endpoint in selected {
            chain(chains, endpoint).rules.extend(rules.iter().cloned());
        }
    }

    /// Returns the rules for some peers and ports of an egress rule.
    fn egress_rules(&self, peers: &[Peers], ports: Option<&Vec<NetworkPolicyPort>>) -> Vec<Rule> {
        let Some(ports) = ports.filter(|ports| !ports.is_empty()) else {
            return product(peers, &[Ports::Any]).collect();
        };
        let rules = ports.iter().flat_map(|port| match named_port(port) {
            Some((name, protocol)) => self.named_port_rules(peers, name, protocol),
            None => product(peers, numbered_ports(port).as_slice()).collect(),
        });
        rules.collect()
    }

    /// Returns one rule for each number that the named port has on a peer.
    fn named_port_rules(&self, peers: &[Peers], name: &str, protocol: Protocol) -> Vec<Rule> {
        let mut addresses = BTreeMap::<u16, BTreeSet<Ipv4Addr>>::new();
        for endpoint in self.endpoints.values() {
            let is_peer = peers.iter().any(|peers| peers.contains(endpoint.address));
            if let Some(port) = endpoint.port(name, protocol).filter(|_| is_peer) {
                addresses.entry(port).or_default().insert(endpoint.address);
            }
        }
        let rule = |(port, addresses)| Rule {
            peers: Peers::Addresses(addresses),
            ports: Ports::Range { protocol, first: port, last: port },
        };
        addresses.into_iter().map(rule).collect()
    }

    /// Returns the addresses of the peers of a rule. A rule without peers matches every address.
    fn peers(&self, namespace: &str, peers: Option<&Vec<NetworkPolicyPeer>>) -> Vec<Peers> {
        let Some(peers) = peers.filter(|peers| !peers.is_empty()) else { return vec![Peers::Any] };
        let selectors = peers.iter().filter(|peer| peer.ip_block.is_none());
        let addresses: BTreeSet<_> =
            selectors.flat_map(|peer| self.selected_addresses(namespace, peer)).collect();
        let addresses = Some(addresses).filter(|addresses| !addresses.is_empty()).map(Peers::Addresses);
        let blocks = peers.iter().filter_map(|peer| block(peer.ip_block.as_ref()?));
        addresses.into_iter().chain(blocks).collect()
    }

    /// Returns the addresses of the Pods that the selectors of a peer match.
    fn selected_addresses(&self, namespace: &str, peer: &NetworkPolicyPeer) -> Vec<Ipv4Addr> {
        let pods = selector(peer.pod_selector.as_ref());
        let namespaces = peer.namespace_selector.as_ref().map(|namespaces| selector(Some(namespaces)));
        let is_selected = |endpoint: &&Endpoint<'_>| {
            let in_namespace = match &namespaces {
                Some(selector) => self.is_in_selected_namespace(endpoint, selector.as_ref()),
                None => endpoint.is_in(namespace),
            };
            in_namespace && selects(pods.as_ref(), endpoint.pod)
        };
        self.endpoints.values().filter(is_selected).map(|endpoint| endpoint.address).collect()
    }

    /// Returns whether the selector matches the namespace of the Pod. An unknown namespace is never matched.
    fn is_in_selected_namespace(&self, endpoint: &Endpoint<'_>, selector: Option<&Selector>) -> bool {
        let namespace = self.namespaces.get(&endpoint.pod.namespace().unwrap_or_default());
        namespace.is_some_and(|namespace| selects(selector, *namespace))
    }
}

/// Returns the chain of a Pod, which is created if it is missing.
fn chain<'a>(chains: &'a mut BTreeMap<Ipv4Addr, Chain>, endpoint: &Endpoint<'_>) -> &'a mut Chain {
    let new = || Chain::new(endpoint.full_name(), endpoint.address);
    chains.entry(endpoint.address).or_insert_with(new)
}

/// Returns whether the policy restricts the direction. The defaults are those of the API server.
fn has_type(spec: &NetworkPolicySpec, direction: &str) -> bool {
    match spec.policy_types.as_ref().filter(|types| !types.is_empty()) {
        Some(types) => types.iter().any(|name| name == direction),
        None => direction == "Ingress" || spec.egress.as_ref().is_some_and(|rules| !rules.is_empty()),
    }
}

/// Returns the selector, which matches everything if it is missing, or `None` if it is invalid.
fn selector(selector: Option<&LabelSelector>) -> Option<Selector> {
    selector.cloned().unwrap_or_default().try_into().ok()
}

/// Returns whether the selector matches the labels of the object. An invalid selector matches nothing.
fn selects(selector: Option<&Selector>, object: &impl ResourceExt) -> bool {
    selector.is_some_and(|selector| selector.matches(object.labels()))
}

/// Returns every combination of peers and ports.
fn product<'a>(peers: &'a [Peers], ports: &'a [Ports]) -> impl Iterator<Item = Rule> + 'a {
    peers.iter().flat_map(|peers| ports.iter().map(|ports| Rule { peers: peers.clone(), ports: *ports }))
}

/// Returns the ports of an ingress rule on a Pod. A rule without ports matches every port.
fn ingress_ports(endpoint: &Endpoint<'_>, ports: Option<&Vec<NetworkPolicyPort>>) -> Vec<Ports> {
    let Some(ports) = ports.filter(|ports| !ports.is_empty()) else { return vec![Ports::Any] };
    let ports = ports.iter().filter_map(|port| match named_port(port) {
        Some((name, protocol)) => {
            let port = endpoint.port(name, protocol)?;
            Some(Ports::Range { protocol, first: port, last: port })
        }
        None => numbered_ports(port),
    });
    ports.collect()
}

/// Returns name and protocol of a port that has a name.
fn named_port(port: &NetworkPolicyPort) -> Option<(&str, Protocol)> {
    match &port.port {
        Some(IntOrString::String(name)) => Some((name, Protocol::named(port.protocol.as_deref())?)),
        _ => None,
    }
}

/// Returns the ports of a port that has a number or neither name nor number.
fn numbered_ports(port: &NetworkPolicyPort) -> Option<Ports> {
    let protocol = Protocol::named(port.protocol.as_deref())?;
    match &port.port {
        None => Some(Ports::All(protocol)),
        Some(IntOrString::Int(number)) => {
            let first = u16::try_from(*number).ok()?;
            let last = u16::try_from(port.end_port.unwrap_or(*number)).ok()?;
            (first <= last).then_some(Ports::Range { protocol, first, last })
        }
        Some(IntOrString::String(_)) => None,
    }
}

/// Returns the address block of a peer, or `None` if it is invalid, not IPv4, or empty.
fn block(block: &IPBlock) -> Option<Peers> {
    let cidr: Cidr = block.cidr.parse().ok()?;
    let except = block.except.iter().flatten().map(|part| part.parse());
    let except: BTreeSet<Cidr> = except.collect::<Result<_, _>>().ok()?;
    let is_empty = except.iter().any(|part| part.covers(cidr));
    (!is_empty).then(|| Peers::Block { cidr, except: without_overlaps(&except) })
}

/// Returns the address blocks that no other block covers.
fn without_overlaps(blocks: &BTreeSet<Cidr>) -> BTreeSet<Cidr> {
    let is_covered = |block: &Cidr| blocks.iter().any(|other| other != block && other.covers(*block));
    blocks.iter().copied().filter(|block| !is_covered(block)).collect()
}
