//! Targets of webhooks: operations and resources, derived from Rust types.

use std::{marker::PhantomData, ops::BitOr};

use super::request::{Metadata, Operation};
use crate::kind::Kind;

/// A set of operations. Combine them with `|`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operations(u8);

/// Creation of objects.
pub const CREATE: Operations = Operations(1);
/// Updates of objects.
pub const UPDATE: Operations = Operations(1 << 1);
/// Deletion of objects.
pub const DELETE: Operations = Operations(1 << 2);
/// Connections to objects.
pub const CONNECT: Operations = Operations(1 << 3);

const ALL: [Operation; 4] = [Operation::Create, Operation::Update, Operation::Delete, Operation::Connect];

impl BitOr for Operations {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl From<Operation> for Operations {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::Create => CREATE,
            Operation::Update => UPDATE,
            Operation::Delete => DELETE,
            Operation::Connect => CONNECT,
        }
    }
}

impl Operations {
    /// Returns whether the set contains all of `others`.
    pub fn contains(self, others: impl Into<Self>) -> bool {
        let others = others.into();
        self.0 & others.0 == others.0
    }

    /// Returns the names for a webhook configuration.
    pub fn names(self) -> Vec<String> {
        let among = ALL.iter().filter(|operation| self.contains(**operation));
        among.map(ToString::to_string).collect()
    }
}

/// Operations on objects of kind `K`. Created by [`target`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Target<K> {
    rule: TargetRule,
    kind: PhantomData<fn() -> K>,
}

/// Represents every kind of a scope. See [`any_namespaced`] and [`any_cluster_scoped`].
#[derive(Clone, Copy, Debug)]
pub struct AnyKind;

/// Returns operations on objects of kind `K`, in the version of the type. The API server converts
/// requests in other versions.
pub fn target<K: Kind>(operations: Operations) -> Target<K> {
    let rule = TargetRule {
        operations,
        group: K::group(&()).into_owned(),
        version: K::version(&()).into_owned(),
        resource: K::plural(&()).into_owned(),
        subresource: None,
        namespaced: K::NAMESPACED,
        kind: None,
    };
    Target { rule, kind: PhantomData }
}

/// Returns operations on objects of all namespaced kinds, without subresources.
///
/// Leases, Events, and the API server's own authorization reviews are always excluded. Use it for
/// handlers of [`Metadata`]. The webhook is called for every such write in the selected namespaces,
/// so add an object or namespace selector.
pub fn any_namespaced(operations: Operations) -> Target<AnyKind> {
    any(operations, true)
}

/// Returns operations on objects of all cluster-scoped kinds, without subresources.
///
/// The same kinds are excluded as for [`any_namespaced`]. Add an object selector: the webhook must
/// never review what a cluster needs to start, such as nodes.
pub fn any_cluster_scoped(operations: Operations) -> Target<AnyKind> {
    any(operations, false)
}

fn any(operations: Operations, namespaced: bool) -> Target<AnyKind> {
    let any = || "*".to_owned();
    let rule = TargetRule {
        operations,
        group: any(),
        version: any(),
        resource: any(),
        subresource: None,
        namespaced,
        kind: None,
    };
    Target { rule, kind: PhantomData }
}

impl<K> Target<K> {
    /// Returns the same operations on a subresource, such as `ephemeralcontainers`.
    ///
    /// A handler of `K` requires a subresource with the whole object, such as `status`. Use
    /// [`Metadata`] for others.
    pub fn subresource(mut self, name: &str) -> Self {
        self.rule.subresource = Some(name.to_owned());
        self
    }

    pub(crate) fn into_rule(self) -> TargetRule {
        self.rule
    }
}

/// Implemented by types of objects that a handler can use to review objects of kind `K`.
pub trait Covers<K> {
    /// Returns the kind that an object must have. `None` for any kind.
    fn kind() -> Option<String>;
}

impl<K: Kind> Covers<K> for K {
    fn kind() -> Option<String> {
        Some(K::kind(&()).into_owned())
    }
}

impl<K: Kind> Covers<K> for Metadata {
    fn kind() -> Option<String> {
        None
    }
}

impl Covers<AnyKind> for Metadata {
    fn kind() -> Option<String> {
        None
    }
}

/// A rule of a webhook configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetRule {
    /// Operations of the rule.
    pub operations: Operations,
    /// Group. `*` for all groups, empty for the core group.
    pub group: String,
    /// Version. `*` for all versions.
    pub version: String,
    /// Plural of the kind. `*` for all kinds.
    pub resource: String,
    /// Subresource. `None` for the objects themselves.
    pub subresource: Option<String>,
    /// Whether the kind is namespaced.
    pub namespaced: bool,
    /// Kind that the handler requires. `None` for any kind.
    pub kind: Option<String>,
}

impl TargetRule {
    pub(crate) fn of<K, O: Covers<K>>(target: Target<K>) -> Self {
        Self { kind: O::kind(), ..target.rule }
    }

    /// Returns whether the rule covers every kind.
    pub fn is_any(&self) -> bool {
        self.resource == "*"
    }

    /// Returns the resource for a webhook configuration, such as `pods/ephemeralcontainers`.
    pub fn resource_name(&self) -> String {
        match &self.subresource {
            Some(subresource) => format!("{}/{subresource}", self.resource),
            None => self.resource.clone(),
        }
    }

    /// Returns the scope for a webhook configuration.
    pub(crate) fn scope(&self) -> &'static str {
        if self.namespaced { "Namespaced" } else { "Cluster" }
    }

    /// Returns a description such as `CREATE, UPDATE of tenants of capsule.clastix.io/v1beta2`.
    pub fn describe(&self) -> String {
        let operations = self.operations.names().join(", ");
        if self.is_any() {
            let place = if self.namespaced { "in namespaces" } else { "without a namespace" };
            return format!("{operations} of any kind {place}");
        }
        format!("{operations} of {}", describe_resource(&self.resource_name(), &self.group, &self.version))
    }
}

/// Returns a description such as `tenants of capsule.clastix.io/v1beta2` or `pods of v1`.
pub(crate) fn describe_resource(name: &str, group: &str, version: &str) -> String {
    if group.is_empty() { format!("{name} of {version}") } else { format!("{name} of {group}/{version}") }
}
