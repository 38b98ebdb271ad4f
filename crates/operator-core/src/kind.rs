//! Kinds and keys of objects.

use std::{
    fmt::{self, Debug},
    sync::Arc,
};

use kube::{
    Api, Client, Resource, ResourceExt,
    core::{ClusterResourceScope, NamespaceResourceScope, ObjectMeta},
};
use serde::de::DeserializeOwned;

/// Between a namespace and a name.
const SEPARATOR: &str = "/";

/// A kind with a Rust type: a type of `k8s_openapi`, a derived custom resource, or a smaller type
/// such as [`PodView`](crate::pod::PodView).
///
/// Implemented for all such types.
pub trait Kind:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
    /// Whether the kind is namespaced.
    const NAMESPACED: bool;

    /// Returns the API of a namespace. Returns the API of the whole cluster without a namespace, or
    /// if the kind is cluster-scoped.
    fn api(client: Client, namespace: Option<&str>) -> Api<Self>;

    /// Returns the key of an object that is referenced from within `namespace`, for example by an
    /// owner reference.
    fn key_within(namespace: Option<&str>, name: &str) -> ObjectKey;
}

impl<K> Kind for K
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::Scope: ScopedApi<K>,
{
    const NAMESPACED: bool = <K::Scope as ScopedApi<K>>::NAMESPACED;

    fn api(client: Client, namespace: Option<&str>) -> Api<Self> {
        <K::Scope as ScopedApi<K>>::api(client, namespace)
    }

    fn key_within(namespace: Option<&str>, name: &str) -> ObjectKey {
        match namespace {
            Some(namespace) if K::NAMESPACED => ObjectKey::namespaced(namespace, name),
            _ => ObjectKey::cluster(name),
        }
    }
}

/// API of a scope. An implementation detail of [`Kind`].
pub trait ScopedApi<K> {
    /// Whether the scope is a namespace.
    const NAMESPACED: bool;

    /// See [`Kind::api`].
    fn api(client: Client, namespace: Option<&str>) -> Api<K>;
}

impl<K: Resource<DynamicType = (), Scope = Self>> ScopedApi<K> for NamespaceResourceScope {
    const NAMESPACED: bool = true;

    fn api(client: Client, namespace: Option<&str>) -> Api<K> {
        match namespace {
            Some(namespace) => Api::namespaced(client, namespace),
            None => Api::all(client),
        }
    }
}

impl<K: Resource<DynamicType = (), Scope = Self>> ScopedApi<K> for ClusterResourceScope {
    const NAMESPACED: bool = false;

    fn api(client: Client, _namespace: Option<&str>) -> Api<K> {
        Api::all(client)
    }
}

/// Namespace and name of an object.
///
/// Cheap to clone. Displays as `namespace/name`, or `name` for a cluster-scoped object.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// `namespace/name`, or `/name` without a namespace: a cache of many objects has one allocation for each.
    text: Arc<str>,
}

impl ObjectKey {
    /// Returns the key of an object in a namespace, or of a cluster-scoped object if `namespace` is empty.
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        Self { text: [namespace, SEPARATOR, name].concat().into() }
    }

    /// Returns the key of a cluster-scoped object.
    pub fn cluster(name: &str) -> Self {
        Self::namespaced("", name)
    }

    /// Returns the key of an object. The name is empty if the object has none.
    pub fn of<K: Resource>(object: &K) -> Self {
        Self::of_meta(object.meta())
    }

    /// Returns the key of the object with this metadata.
    pub fn of_meta(meta: &ObjectMeta) -> Self {
        Self::namespaced(
            meta.namespace.as_deref().unwrap_or_default(),
            meta.name.as_deref().unwrap_or_default(),
        )
    }

    /// Returns the namespace, if the object is namespaced.
    pub fn namespace(&self) -> Option<&str> {
        Some(self.parts().0).filter(|namespace| !namespace.is_empty())
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.parts().1
    }

    /// Returns the namespace, which can be empty, and the name. No namespace contains a separator.
    fn parts(&self) -> (&str, &str) {
        self.text.split_once(SEPARATOR).unwrap_or_default()
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text.strip_prefix(SEPARATOR).unwrap_or(&self.text))
    }
}

impl Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Returns `Kind namespace/name`, for messages.
pub fn describe<K: Resource<DynamicType = ()>>(key: &ObjectKey) -> String {
    format!("{} {key}", K::kind(&()))
}

/// Returns the UID, or the empty string if the object was not created yet.
pub fn uid<K: Resource>(object: &K) -> String {
    object.uid().unwrap_or_default()
}

/// Returns whether the object is being deleted. It can still have finalizers.
pub fn is_deleting<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}
