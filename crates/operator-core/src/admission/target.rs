//! What a webhook is asked about: typed, so that it cannot name what does not exist.

use std::{marker::PhantomData, ops::BitOr};

use super::request::{Metadata, Operation};
use crate::kind::Kind;

/// A set of operations; combined with `|`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operations(u8);

/// Objects that are made.
pub const CREATE: Operations = Operations(1);
/// Objects that are changed.
pub const UPDATE: Operations = Operations(1 << 1);
/// Objects that are deleted.
pub const DELETE: Operations = Operations(1 << 2);
/// Connections that are opened to objects.
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
    /// Whether all of these are among them.
    pub fn contains(self, others: impl Into<Self>) -> bool {
        let others = others.into();
        self.0 & others.0 == others.0
    }

    /// Their names in a webhook configuration.
    pub fn names(self) -> Vec<String> {
        let among = ALL.iter().filter(|operation| self.contains(**operation));
        among.map(ToString::to_string).collect()
    }
}

/// Operations on objects of kind `K`. Made by [`target`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Target<K> {
    rule: TargetRule,
    kind: PhantomData<fn() -> K>,
}

/// Stands for every kind; see [`any_namespaced`].
#[derive(Clone, Copy, Debug)]
pub struct AnyKind;

/// Operations on the objects of kind `K`, in the version of the type. Requests in other versions are converted by
/// the API server.
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

/// Operations on the objects of every kind that live in namespaces, subresources not among them. Leases, Events and
/// the reviews that the API server makes for itself are always left out.
///
/// For handlers of [`Metadata`]. Costs a call for every such write in the selected namespaces: give it an object or
/// namespace selector.
pub fn any_namespaced(operations: Operations) -> Target<AnyKind> {
    let any = || "*".to_owned();
    let rule = TargetRule {
        operations,
        group: any(),
        version: any(),
        resource: any(),
        subresource: None,
        namespaced: true,
        kind: None,
    };
    Target { rule, kind: PhantomData }
}

impl<K> Target<K> {
    /// The same operations on a subresource, `ephemeralcontainers` for example, instead of the objects themselves.
    ///
    /// A handler of `K` needs one that carries the whole object, as `status` does; others are for handlers of
    /// [`Metadata`].
    pub fn subresource(mut self, name: &str) -> Self {
        self.rule.subresource = Some(name.to_owned());
        self
    }

    pub(super) fn into_rule(self) -> TargetRule {
        self.rule
    }
}

/// Handlers of this type of object can be asked about objects of kind `K`.
pub trait Covers<K> {
    /// The kind that an object must have for the handler to understand it; any, if none.
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

/// One rule of a webhook configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetRule {
    /// What is done.
    pub operations: Operations,
    /// The group; `*` for all, empty for the core group.
    pub group: String,
    /// The version; `*` for all.
    pub version: String,
    /// The plural of the kind; `*` for all.
    pub resource: String,
    /// The subresource, if it is not about the objects themselves.
    pub subresource: Option<String>,
    /// Whether the objects live in namespaces.
    pub namespaced: bool,
    /// The kind that the handler understands; any, if none.
    pub kind: Option<String>,
}

impl TargetRule {
    pub(super) fn of<K, O: Covers<K>>(target: Target<K>) -> Self {
        Self { kind: O::kind(), ..target.rule }
    }

    /// Whether it is about every kind.
    pub fn is_any(&self) -> bool {
        self.resource == "*"
    }

    /// The resource as a webhook configuration names it: `pods/ephemeralcontainers`.
    pub fn resource_name(&self) -> String {
        match &self.subresource {
            Some(subresource) => format!("{}/{subresource}", self.resource),
            None => self.resource.clone(),
        }
    }

    /// The scope as a webhook configuration names it.
    pub(super) fn scope(&self) -> &'static str {
        if self.namespaced { "Namespaced" } else { "Cluster" }
    }

    /// For people: `CREATE, UPDATE of tenants.capsule.clastix.io/v1beta2`.
    pub fn describe(&self) -> String {
        let operations = self.operations.names().join(", ");
        if self.is_any() {
            return format!("{operations} of any kind in namespaces");
        }
        format!("{operations} of {}", resource(&self.resource_name(), &self.group, &self.version))
    }
}

/// A resource for people: `tenants.capsule.clastix.io/v1beta2`, `pods/v1`.
pub(super) fn resource(name: &str, group: &str, version: &str) -> String {
    if group.is_empty() { format!("{name} of {version}") } else { format!("{name} of {group}/{version}") }
}
