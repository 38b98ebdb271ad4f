//! Namespaces, and objects in them, that a request reads by their names.

use std::fmt;

use capsule::{cluster_resources::Resource, syntax::is_subdomain};

use crate::path::{group_and_rest, is_label};

/// A namespace, or an object in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedObject {
    namespace: String,
    resource: Resource,
    name: String,
}

impl NamedObject {
    /// Returns the object that a request reads, or `None` for all other requests: lists, watches, parts of
    /// objects, and paths in another form.
    pub fn of(method: &str, path: &str, query: &str) -> Option<Self> {
        if method != "GET" || query.contains("watch") {
            return None;
        }
        let (group, mut parts) = group_and_rest(path)?;
        let version = parts.next().filter(|version| is_label(version))?;
        let namespace = parts.next().filter(|plural| *plural == "namespaces").and_then(|_| parts.next())?;
        let (plural, name) = match (parts.next(), parts.next()) {
            (None, _) if group.is_empty() => ("namespaces", namespace),
            (Some(plural), Some(name)) => (plural, name),
            _ => return None,
        };
        let is_known =
            parts.next().is_none() && is_label(namespace) && is_label(plural) && is_subdomain(name);
        let resource = Resource { group: group.into(), version: version.into(), plural: plural.into() };
        is_known.then(|| Self { namespace: namespace.to_owned(), resource, name: name.to_owned() })
    }

    /// Returns the namespace, a DNS label.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }
}

/// Writes the object as the API server does in its messages.
impl fmt::Display for NamedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Resource { group, plural, .. } = &self.resource;
        let dot = if group.is_empty() { "" } else { "." };
        write!(f, "{plural}{dot}{group} {:?}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_that_are_read_by_name_are_found() {
        for (path, namespace, text) in [
            ("/api/v1/namespaces/oil-dev", "oil-dev", "namespaces \"oil-dev\""),
            ("/api/v1/namespaces/oil-dev/secrets/a.b", "oil-dev", "secrets \"a.b\""),
            ("/apis/apps/v1/namespaces/oil-dev/deployments/web", "oil-dev", "deployments.apps \"web\""),
        ] {
            let object = NamedObject::of("GET", path, "").unwrap();
            assert_eq!((object.namespace(), &*object.to_string()), (namespace, text));
        }
    }

    #[test]
    fn other_requests_have_no_object() {
        for (method, path, query) in [
            ("POST", "/api/v1/namespaces/a", ""),
            ("GET", "/api/v1/namespaces/a", "watch=1"),
            ("GET", "/api/v1/namespaces", ""),
            ("GET", "/api/v1/namespaces/", ""),
            ("GET", "/api/v1/namespaces/a/", ""),
            ("GET", "/api/v1/namespaces/a/pods", ""),
            ("GET", "/api/v1/namespaces/a/pods/b/log", ""),
            ("GET", "/api/v1/namespaces/a%2fb", ""),
            ("GET", "/api/v1/namespaces/a,metadata.name!=b", ""),
            ("GET", "/api/v1/namespaces/a.b", ""),
            ("GET", "/apis/apps/v1/namespaces/a", ""),
            ("GET", "/api/v1/nodes/a", ""),
            ("GET", "//api/v1/namespaces/a", ""),
        ] {
            assert_eq!(NamedObject::of(method, path, query), None, "{method} {path}");
        }
    }
}
