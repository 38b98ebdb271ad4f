//! Kinds of objects and the keys that tell their objects apart.

use std::{
    fmt::{self, Debug},
    sync::Arc,
};

use kube::{
    Api, Client, Resource, ResourceExt,
    core::{ClusterResourceScope, NamespaceResourceScope, ObjectMeta},
};
use serde::de::DeserializeOwned;

/// A kind that is known when the program is compiled: every type of `k8s_openapi`, every derived custom
/// resource, and every view.
///
/// Implemented for all of them; there is nothing to write.
pub trait Kind:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
    /// Whether the objects live in namespaces.
    const NAMESPACED: bool;

    /// The API of one namespace or, for a cluster-scoped kind or without a namespace, of the whole cluster.
    fn api(client: Client, namespace: Option<&str>) -> Api<Self>;

    /// The key of an object of this kind that is named from within `namespace`: by an owner reference, say.
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

/// How the objects of a scope are addressed. An implementation detail of [`Kind`].
pub trait ScopedApi<K> {
    /// Whether the objects live in namespaces.
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

/// Namespace and name of an object; the kind is known from where the key is used.
///
/// Cheap to clone. Prints as `namespace/name`, or `name` where there is no namespace.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    namespace: Option<Arc<str>>,
    name: Arc<str>,
}

impl ObjectKey {
    /// The key of an object in a namespace.
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        Self { namespace: Some(namespace.into()), name: name.into() }
    }

    /// The key of a cluster-scoped object.
    pub fn cluster(name: &str) -> Self {
        Self { namespace: None, name: name.into() }
    }

    /// The key of an object. An object without a name, which no API server returns, has the empty one.
    pub fn of<K: Resource>(object: &K) -> Self {
        Self::of_meta(object.meta())
    }

    /// The key that stands in an object's metadata.
    pub fn of_meta(meta: &ObjectMeta) -> Self {
        Self {
            namespace: meta.namespace.as_deref().map(Into::into),
            name: meta.name.as_deref().unwrap_or_default().into(),
        }
    }

    /// The namespace, if the object has one.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `Kind namespace/name`, as messages to people name an object.
pub fn describe<K: Resource<DynamicType = ()>>(key: &ObjectKey) -> String {
    format!("{} {key}", K::kind(&()))
}

/// The object's UID, or the empty string for one that was never created.
pub fn uid<K: Resource>(object: &K) -> String {
    object.uid().unwrap_or_default()
}

/// Whether deletion of the object was asked for. Such an object may still hold finalizers.
pub fn is_deleting<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}
