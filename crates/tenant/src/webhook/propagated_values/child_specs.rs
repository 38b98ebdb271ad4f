//! Validates the LimitRanges and NetworkPolicies of a Tenant. Pure.
//!
//! Only rules that hold for all versions of the API server are checked. Values that a newer version
//! may accept, such as names of resources and scopes, are not.

use std::{cmp::Ordering, collections::BTreeSet};

use capsule::cidr;
use k8s_openapi::{
    api::{
        core::v1::{LimitRangeItem, LimitRangeSpec},
        networking::v1::{IPBlock, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec},
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use operator_core::quantity::Quantity;

use super::Violations;
use crate::quota::Resources;

/// Maximum length of a port name.
const MAX_PORT_NAME_LENGTH: usize = 15;

impl Violations {
    pub(super) fn limit_range(&mut self, path: &str, range: &LimitRangeSpec) {
        let mut types = BTreeSet::new();
        for (index, item) in range.limits.iter().enumerate() {
            let path = format!("{path}.limits[{index}]");
            let at = format!("{path}.type");
            self.require(types.insert(&item.type_), &at, "a LimitRange may have one entry for each type");
            self.limits(&path, item);
        }
    }

    fn limits(&mut self, path: &str, item: &LimitRangeItem) {
        if item.type_ == "Pod" {
            let message = "the type Pod has no defaults; use the type Container";
            self.require(is_none(item.default.as_ref()), &format!("{path}.default"), message);
            self.require(is_none(item.default_request.as_ref()), &format!("{path}.defaultRequest"), message);
        }
        if item.type_ == "PersistentVolumeClaim" {
            let has_storage = |quantities: Option<&Resources>| {
                quantities.is_some_and(|found| found.contains_key("storage"))
            };
            let is_limited = has_storage(item.min.as_ref()) || has_storage(item.max.as_ref());
            self.require(is_limited, path, "the type PersistentVolumeClaim requires min or max of storage");
        }
        let (min, max) = (("min", item.min.as_ref()), ("max", item.max.as_ref()));
        let default = ("default", item.default.as_ref());
        let request = ("defaultRequest", item.default_request.as_ref());
        for (smaller, larger) in
            [(min, max), (min, request), (min, default), (request, default), (request, max), (default, max)]
        {
            self.ordered(path, smaller, larger);
        }
    }

    /// Checks that no quantity of one field is larger than the quantity of the other field for the
    /// same resource.
    fn ordered(
        &mut self,
        path: &str,
        (smaller, smaller_quantities): (&str, Option<&Resources>),
        (larger, larger_quantities): (&str, Option<&Resources>),
    ) {
        for (name, quantity) in smaller_quantities.into_iter().flatten() {
            let Some(limit) = larger_quantities.and_then(|larger_quantities| larger_quantities.get(name))
            else {
                continue;
            };
            // The CRD rejects invalid quantities.
            let (Ok(quantity), Ok(limit)) = (Quantity::try_from(quantity), Quantity::try_from(limit)) else {
                continue;
            };
            let is_ordered = quantity.cmp(&limit) != Ordering::Greater;
            self.require(
                is_ordered,
                &format!("{path}.{smaller}[{}]", super::quoted(name)),
                &format!("it must not be larger than {larger}"),
            );
        }
    }

    pub(super) fn network_policy(&mut self, path: &str, policy: &NetworkPolicySpec) {
        if let Some(selector) = &policy.pod_selector {
            self.selector(&format!("{path}.podSelector"), selector);
        }
        for (index, one) in policy.policy_types.iter().flatten().enumerate() {
            let is_known = matches!(one.as_str(), "Ingress" | "Egress");
            self.require(is_known, &format!("{path}.policyTypes[{index}]"), "it must be Ingress or Egress");
        }
        for (index, rule) in policy.ingress.iter().flatten().enumerate() {
            let path = format!("{path}.ingress[{index}]");
            self.peers(&format!("{path}.from"), rule.from.iter().flatten());
            self.ports(&format!("{path}.ports"), rule.ports.iter().flatten());
        }
        for (index, rule) in policy.egress.iter().flatten().enumerate() {
            let path = format!("{path}.egress[{index}]");
            self.peers(&format!("{path}.to"), rule.to.iter().flatten());
            self.ports(&format!("{path}.ports"), rule.ports.iter().flatten());
        }
    }

    fn peers<'p>(&mut self, path: &str, peers: impl Iterator<Item = &'p NetworkPolicyPeer>) {
        for (index, peer) in peers.enumerate() {
            let path = format!("{path}[{index}]");
            for (field, selector) in
                [("podSelector", &peer.pod_selector), ("namespaceSelector", &peer.namespace_selector)]
            {
                if let Some(selector) = selector {
                    self.selector(&format!("{path}.{field}"), selector);
                }
            }
            let selects = peer.pod_selector.is_some() || peer.namespace_selector.is_some();
            let message = "a peer must have either an ipBlock or selectors";
            self.require(peer.ip_block.is_some() != selects, &path, message);
            if let Some(block) = &peer.ip_block {
                self.block(&format!("{path}.ipBlock"), block);
            }
        }
    }

    fn block(&mut self, path: &str, block: &IPBlock) {
        for (index, except) in block.except.iter().flatten().enumerate() {
            let is_within = cidr::is_within(except, &block.cidr);
            self.require(
                is_within,
                &format!("{path}.except[{index}]"),
                "it must be a smaller range within the cidr",
            );
        }
    }

    fn ports<'p>(&mut self, path: &str, ports: impl Iterator<Item = &'p NetworkPolicyPort>) {
        for (index, port) in ports.enumerate() {
            let path = format!("{path}[{index}]");
            let is_known = matches!(port.protocol.as_deref(), None | Some("TCP" | "UDP" | "SCTP"));
            self.require(is_known, &format!("{path}.protocol"), "it must be TCP, UDP or SCTP");
            let is_port = port.port.as_ref().is_none_or(is_port);
            self.require(
                is_port,
                &format!("{path}.port"),
                "it must be between 1 and 65535, or the name of a port",
            );
            let Some(end) = port.end_port else { continue };
            let is_range =
                matches!(port.port, Some(IntOrString::Int(first)) if (first..=65535).contains(&end));
            let message = "it must be between port, which must be a number, and 65535";
            self.require(is_range, &format!("{path}.endPort"), message);
        }
    }
}

fn is_none(quantities: Option<&Resources>) -> bool {
    quantities.is_none_or(Resources::is_empty)
}

fn is_port(port: &IntOrString) -> bool {
    match port {
        IntOrString::Int(number) => (1..=65535).contains(number),
        IntOrString::String(name) => {
            name.len() <= MAX_PORT_NAME_LENGTH
                && name.bytes().all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == b'-')
                && name.bytes().any(|one| one.is_ascii_lowercase())
                && !name.contains("--")
                && !name.starts_with('-')
                && !name.ends_with('-')
        }
    }
}
