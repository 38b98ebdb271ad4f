//! Which requests have a view.

use std::fmt;

use capsule::{
    api::{proxy_settings::ClusterResourceOperation, v1beta2::ProxyKind},
    cluster_resources::Resource,
    syntax::is_subdomain,
};

use crate::path::{group_and_rest, is_label};

/// A list, a watch, or an object that the proxy can show to a user whom the API server refuses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    kind: ViewKind,
    resource: Resource,
    name: Option<String>,
}

impl View {
    /// Returns the view of a request, or `None` if it has none.
    ///
    /// The bytes of the path must be exactly those of the resource; one slash at the end is tolerated. A
    /// path with another form, such as one that is encoded, reaches the same resource of the API server,
    /// and has no view.
    pub fn of(method: &str, path: &str) -> Option<Self> {
        if method != "GET" {
            return None;
        }
        let path = path.strip_suffix('/').unwrap_or(path);
        let (group, mut parts) = group_and_rest(path)?;
        let (version, plural, name) = (parts.next()?, parts.next()?, parts.next());
        // Kinds in namespaces, and parts of objects.
        if parts.next().is_some() {
            return None;
        }
        let resource = Resource { group: group.into(), version: version.into(), plural: plural.into() };
        Self::new(resource, name)
    }

    /// Returns the view of a kind, or of one of its objects.
    pub fn new(resource: Resource, name: Option<&str>) -> Option<Self> {
        let kind = ViewKind::of(&resource)?;
        // `/api/v1/watch/namespaces` is a list in an old form.
        let is_known =
            is_label(&resource.version) && is_label(&resource.plural) && resource.plural != "watch";
        // The API server refuses to list namespaces only: single ones are a matter of rights in them.
        let is_named = name.is_none_or(|name| is_subdomain(name) && kind != ViewKind::Namespaces);
        (is_known && is_named).then(|| Self { kind, resource, name: name.map(str::to_owned) })
    }

    /// Returns the view of all objects of a kind that has one version, or `None` for other kinds.
    pub fn of_all(kind: ViewKind) -> Option<Self> {
        let (group, version) = kind.group_and_version()?;
        let (group, version, plural) = (group.to_owned(), version.to_owned(), kind.name().to_owned());
        Self::new(Resource { group, version, plural }, None)
    }

    /// Returns the kind of what is shown.
    pub fn kind(&self) -> ViewKind {
        self.kind
    }

    /// Returns the kind of what is shown, by which the API server serves it.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Returns the name of the object. `None`: it is a list or a watch.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the operation that a rule must allow.
    pub fn operation(&self) -> ClusterResourceOperation {
        if self.name.is_some() { ClusterResourceOperation::Get } else { ClusterResourceOperation::List }
    }
}

/// Writes the path of the request from which the view is made.
impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Resource { group, version, plural } = &self.resource;
        if group.is_empty() {
            write!(f, "/api/{version}/{plural}")?;
        } else {
            write!(f, "/apis/{group}/{version}/{plural}")?;
        }
        self.name.iter().try_for_each(|name| write!(f, "/{name}"))
    }
}

/// A kind with a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ViewKind {
    /// Namespaces of the Tenants that a user owns.
    Namespaces,
    /// Tenants that a user owns.
    Tenants,
    /// PersistentVolumes of the Tenants of a user.
    PersistentVolumes,
    /// StorageClasses that the Tenants of a user allow.
    StorageClasses,
    /// IngressClasses that the Tenants of a user allow.
    IngressClasses,
    /// PriorityClasses that the Tenants of a user allow.
    PriorityClasses,
    /// RuntimeClasses that the Tenants of a user allow.
    RuntimeClasses,
    /// Other cluster-scoped kinds, which rules of GlobalProxySettings show.
    ClusterResources,
}

impl ViewKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Namespaces,
        Self::Tenants,
        Self::PersistentVolumes,
        Self::StorageClasses,
        Self::IngressClasses,
        Self::PriorityClasses,
        Self::RuntimeClasses,
        Self::ClusterResources,
    ];

    /// Returns the name for the flag `--views`: the plural name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Tenants => "tenants",
            Self::PersistentVolumes => "persistentvolumes",
            Self::StorageClasses => "storageclasses",
            Self::IngressClasses => "ingressclasses",
            Self::PriorityClasses => "priorityclasses",
            Self::RuntimeClasses => "runtimeclasses",
            Self::ClusterResources => "clusterresources",
        }
    }

    /// Returns the group and the version in which the kind has a view. `None`: all.
    fn group_and_version(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Namespaces | Self::PersistentVolumes => Some(("", "v1")),
            Self::Tenants => Some(("capsule.clastix.io", "v1beta2")),
            Self::StorageClasses => Some(("storage.k8s.io", "v1")),
            Self::IngressClasses => Some(("networking.k8s.io", "v1")),
            Self::PriorityClasses => Some(("scheduling.k8s.io", "v1")),
            Self::RuntimeClasses => Some(("node.k8s.io", "v1")),
            Self::ClusterResources => None,
        }
    }

    /// Returns the kind of a resource. `None`: its view has another version.
    fn of(resource: &Resource) -> Option<Self> {
        let is_of = |kind: &Self| {
            kind.name() == resource.plural
                && kind.group_and_version().is_some_and(|(group, _)| group == resource.group)
        };
        let Some(kind) = Self::ALL.into_iter().find(is_of) else { return Some(Self::ClusterResources) };
        kind.group_and_version().is_some_and(|(_, version)| version == resource.version).then_some(kind)
    }

    /// Returns whether ownership alone grants the view, without settings of the proxy.
    pub fn is_owned(self) -> bool {
        matches!(self, Self::Namespaces | Self::Tenants)
    }

    /// Returns the kind in the settings of an owner. `None`: they do not grant it.
    pub fn setting(self) -> Option<ProxyKind> {
        match self {
            Self::PersistentVolumes => Some(ProxyKind::PersistentVolumes),
            Self::StorageClasses => Some(ProxyKind::StorageClasses),
            Self::IngressClasses => Some(ProxyKind::IngressClasses),
            Self::PriorityClasses => Some(ProxyKind::PriorityClasses),
            Self::RuntimeClasses => Some(ProxyKind::RuntimeClasses),
            Self::Namespaces | Self::Tenants | Self::ClusterResources => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_objects_have_views() {
        for (path, kind, name) in [
            ("/api/v1/namespaces", ViewKind::Namespaces, None),
            ("/apis/capsule.clastix.io/v1beta2/tenants", ViewKind::Tenants, None),
            ("/apis/capsule.clastix.io/v1beta2/tenants/oil", ViewKind::Tenants, Some("oil")),
            ("/api/v1/persistentvolumes", ViewKind::PersistentVolumes, None),
            ("/apis/storage.k8s.io/v1/storageclasses/fast", ViewKind::StorageClasses, Some("fast")),
            ("/apis/networking.k8s.io/v1/ingressclasses", ViewKind::IngressClasses, None),
            ("/apis/scheduling.k8s.io/v1/priorityclasses", ViewKind::PriorityClasses, None),
            ("/apis/node.k8s.io/v1/runtimeclasses", ViewKind::RuntimeClasses, None),
            ("/api/v1/nodes", ViewKind::ClusterResources, None),
            ("/apis/x.example/v1alpha1/widgets/a.b", ViewKind::ClusterResources, Some("a.b")),
        ] {
            for path in [path.to_owned(), format!("{path}/")] {
                let view = View::of("GET", &path).unwrap();
                assert_eq!((view.kind(), view.name()), (kind, name), "{path}");
                assert_eq!(view.to_string(), path.trim_end_matches('/'));
            }
        }
    }

    #[test]
    fn other_forms_of_a_path_have_no_view() {
        for path in [
            "",
            "/",
            "/api",
            "/api/v1",
            "/apis/apps/v1",
            "//api/v1/namespaces",
            "/api/v1/./namespaces",
            "/api/v1/x/../namespaces",
            "/api/v1/%2e%2e/v1/namespaces",
            "/api/v1/%252e/namespaces",
            "/api/v1%2fnamespaces",
            "/api/v1/namespaces;x",
            "/api/v1/namespaces%3fwatch=true",
            "/api/v1/namespaces#x",
            "/API/V1/Namespaces",
            "/api/v1/Namespaces",
            "/api/v1/namespaces//",
            "/api/v1/namespaces/oil-dev",
            "/api/v1/namespaces/oil-dev/pods",
            "/api/v1/watch/namespaces",
            "/api/v1/watch",
            "/apis/x.example/v1/watch/widgets",
            "/api/v1/namespaces/x/finalize",
            "/api/v1/nodes/x/proxy",
            "/api/v2/namespaces",
            "/apis/capsule.clastix.io/v1beta2/tenants//",
            "/apis/capsule.clastix.io/v1beta2/tenants/oil/status",
            "/apis/capsule.clastix.io/v1beta2/tenants/Oil",
            "/apis/capsule.clastix.io/v1beta2/tenants/o,l",
            "/apis/capsule.clastix.io/v1beta2/tenants/..",
            "/apis/capsule.clastix.io/v1beta1/tenants",
            "/apis/scheduling.k8s.io/v1beta1/priorityclasses",
            "/apis//v1/widgets",
            "/apis/../v1/widgets",
            "/apis/x.example/v1.1/widgets",
        ] {
            assert_eq!(View::of("GET", path), None, "{path}");
        }
    }

    #[test]
    fn only_get_has_a_view() {
        for method in ["HEAD", "DELETE", "POST", "PATCH", "PUT", "OPTIONS", "get", "X", ""] {
            assert_eq!(View::of(method, "/api/v1/namespaces"), None, "{method}");
        }
    }

    #[test]
    fn kinds_with_one_version_have_a_view_of_all() {
        for kind in ViewKind::ALL {
            let found = View::of_all(kind).map(|view| view.kind());
            assert_eq!(found, Some(kind).filter(|kind| *kind != ViewKind::ClusterResources));
        }
    }
}
