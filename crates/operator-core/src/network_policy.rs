//! Peers of a NetworkPolicy as part of an API, with the API server's validation rules, and ingress
//! rules.
//!
//! A controller that creates NetworkPolicies for its objects lets their owners name the peers. The
//! types of Kubernetes have no validation, so a wrong peer would be refused only when the controller
//! writes the policy.

#![allow(unreachable_pub, reason = "KubeSchema writes a hidden copy of each struct, which nothing can reach")]

use std::collections::BTreeMap;

use k8s_openapi::{
    api::networking::v1::{IPBlock, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort},
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
        util::intstr::IntOrString,
    },
};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A peer is a set of Pods or a range of IP addresses.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.ipBlock) != (has(self.podSelector) || has(self.namespaceSelector))")
    .message("a peer must have either an ipBlock, or a podSelector, a namespaceSelector or both; podSelector: {} means all pods of this namespace"))]
pub struct Peer {
    /// podSelector selects Pods by label: in this namespace, or in those that namespaceSelector
    /// selects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<Selector>,

    /// namespaceSelector selects namespaces by label. All their Pods are peers, or those that
    /// podSelector selects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<Selector>,

    /// ipBlock is a range of IP addresses, for example of hosts outside the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_block: Option<IpBlock>,
}

/// A selector selects objects by label. All requirements must hold. An empty selector selects
/// everything.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Selector {
    /// matchLabels are labels and their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16), extend("additionalProperties" = {"type": "string", "maxLength": 63}))]
    #[x_kube(validation = Rule::new("self.all(key, !format.qualifiedName().validate(key).hasValue() && !format.labelValue().validate(self[key]).hasValue())")
        .message("matchLabels must be labels: keys such as app or example.com/app, and values of at most 63 letters, digits, '-', '_' and '.'"))]
    pub match_labels: BTreeMap<String, String>,

    /// matchExpressions are additional requirements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub match_expressions: Vec<SelectorRequirement>,
}

/// A requirement on one label.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)")
    .message("give values with the operators In and NotIn, and none with Exists and DoesNotExist"))]
pub struct SelectorRequirement {
    /// key is the key of the label.
    #[schemars(length(min = 1, max = 317))]
    #[x_kube(validation = Rule::new("!format.qualifiedName().validate(self).hasValue()")
        .message("key must be the key of a label, such as app or example.com/app"))]
    pub key: String,

    /// operator relates the label to the values.
    pub operator: SelectorOperator,

    /// values are the values that the operator refers to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 63)))]
    #[x_kube(validation = Rule::new("self.all(value, !format.labelValue().validate(value).hasValue())")
        .message("values must be values of labels: at most 63 letters, digits, '-', '_' and '.'"))]
    pub values: Vec<String>,
}

/// Relation between a label and the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SelectorOperator {
    /// The label has one of the values.
    In,
    /// The label does not exist or has none of the values.
    NotIn,
    /// The label exists.
    Exists,
    /// The label does not exist.
    DoesNotExist,
}

/// An ipBlock is a range of IP addresses.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.except) || !isCIDR(self.cidr) || self.except.all(part, !isCIDR(part) || (cidr(self.cidr).containsCIDR(part) && cidr(part).prefixLength() > cidr(self.cidr).prefixLength()))")
    .message("except must name parts of the network that cidr names"))]
pub struct IpBlock {
    /// cidr is the network in CIDR notation, without bits beyond the prefix.
    #[schemars(length(min = 1, max = 43))]
    #[x_kube(validation = Rule::new("isCIDR(self) && string(cidr(self).masked()) == self")
        .message("cidr must be a network in its canonical form, without bits beyond the prefix: 10.0.0.0/8 or fd00::/8, not 10.1.2.3/8"))]
    pub cidr: String,

    /// except lists the parts of the network to exclude.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 43)))]
    #[x_kube(validation = Rule::new("self.all(part, isCIDR(part) && string(cidr(part).masked()) == part)")
        .message("except must contain networks in their canonical form, without bits beyond the prefix: 10.0.0.0/8 or fd00::/8, not 10.1.2.3/8"))]
    pub except: Vec<String>,
}

/// Returns a rule that allows connections to named TCP ports. Without peers, it allows everybody.
///
/// During a change of a port, each Pod is reachable on its own port.
pub fn ingress_rule(from: Option<Vec<NetworkPolicyPeer>>, ports: &[&str]) -> NetworkPolicyIngressRule {
    let port = |name: &&str| NetworkPolicyPort {
        port: Some(IntOrString::String((*name).to_owned())),
        protocol: Some("TCP".to_owned()),
        end_port: None,
    };
    NetworkPolicyIngressRule { from, ports: Some(ports.iter().map(port).collect()) }
}

impl From<&Peer> for NetworkPolicyPeer {
    fn from(peer: &Peer) -> Self {
        Self {
            pod_selector: peer.pod_selector.as_ref().map(Into::into),
            namespace_selector: peer.namespace_selector.as_ref().map(Into::into),
            ip_block: peer.ip_block.as_ref().map(|block| IPBlock {
                cidr: block.cidr.clone(),
                except: (!block.except.is_empty()).then(|| block.except.clone()),
            }),
        }
    }
}

/// Leaves out empty maps and lists, as the API server does.
impl From<&Selector> for LabelSelector {
    fn from(selector: &Selector) -> Self {
        let requirement = |one: &SelectorRequirement| LabelSelectorRequirement {
            key: one.key.clone(),
            operator: format!("{:?}", one.operator),
            values: (!one.values.is_empty()).then(|| one.values.clone()),
        };
        let (labels, expressions) = (&selector.match_labels, &selector.match_expressions);
        Self {
            match_labels: (!labels.is_empty()).then(|| labels.clone()),
            match_expressions: (!expressions.is_empty())
                .then(|| expressions.iter().map(requirement).collect()),
        }
    }
}
