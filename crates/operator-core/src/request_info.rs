//! Verb and resource of a request to the API server.

use http::{Method, Request};
use tracing::{Span, debug_span, field::Empty};

/// Verb and resource of a request, with the names of RBAC, the audit log, and the API server's
/// metrics.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestInfo {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: &'static str,
    /// Plural, group, and subresource, such as `podsets.app.example.com/status`. Empty for a path
    /// that is no resource.
    pub resource: String,
}

impl RequestInfo {
    /// Returns the verb and the resource of a request.
    pub fn of<B>(request: &Request<B>) -> Self {
        let Target { resource, is_object } = target(request.uri().path());
        Self { verb: verb(request, is_object), resource }
    }

    /// Returns the span of the request, within the current span. Returns no span if there is no
    /// current one, as for watches. The status `code` is recorded with the response.
    pub(crate) fn span(&self) -> Span {
        if Span::current().is_none() {
            return Span::none();
        }
        debug_span!("request", verb = self.verb, resource = self.resource, code = Empty)
    }

    /// Returns whether the request is a watch.
    pub fn is_watch(&self) -> bool {
        self.verb == "watch"
    }

    /// Returns whether the request can change an object.
    pub fn is_write(&self) -> bool {
        !matches!(self.verb, "get" | "list" | "watch")
    }
}

fn verb<B>(request: &Request<B>, is_object: bool) -> &'static str {
    let query = request.uri().query().unwrap_or_default();
    let is_watch = || query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"));
    match *request.method() {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if is_object => "delete",
        Method::DELETE => "deletecollection",
        _ if is_watch() => "watch",
        _ if is_object => "get",
        _ => "list",
    }
}

/// Resource that a path refers to.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    resource: String,
    /// Whether the path refers to a single object.
    is_object: bool,
}

fn target(path: &str) -> Target {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let group = match parts.next() {
        Some("api") => "",
        Some("apis") => parts.next().unwrap_or_default(),
        _ => return Target { resource: String::new(), is_object: true },
    };
    let _version = parts.next();
    let rest: Vec<_> = parts.collect();
    // `namespaces/<name>/<plural>` is a collection in a namespace; `namespaces/<name>/status` is a
    // subresource.
    let rest = match rest.as_slice() {
        ["namespaces", _, "status" | "finalize"] => rest.as_slice(),
        ["namespaces", _, within @ ..] if !within.is_empty() => within,
        all => all,
    };
    let Some((plural, rest)) = rest.split_first() else {
        return Target { resource: String::new(), is_object: true };
    };
    let mut resource = (*plural).to_owned();
    if !group.is_empty() {
        resource = format!("{resource}.{group}");
    }
    if let Some(subresource) = rest.get(1) {
        resource = format!("{resource}/{subresource}");
    }
    Target { resource, is_object: !rest.is_empty() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(method: Method, uri: &str) -> (&'static str, String) {
        let RequestInfo { verb, resource } =
            RequestInfo::of(&Request::builder().method(method).uri(uri).body(()).unwrap());
        (verb, resource)
    }

    #[test]
    fn parses_verb_and_resource() {
        for (method, uri, verb, resource) in [
            (Method::GET, "/api/v1/pods?watch=true", "watch", "pods"),
            (Method::GET, "/api/v1/namespaces/a/pods?limit=3", "list", "pods"),
            (Method::GET, "/api/v1/namespaces/a/pods/b", "get", "pods"),
            (Method::GET, "/api/v1/namespaces", "list", "namespaces"),
            (Method::GET, "/api/v1/namespaces/a", "get", "namespaces"),
            (Method::PUT, "/api/v1/namespaces/a/finalize", "update", "namespaces/finalize"),
            (Method::POST, "/api/v1/namespaces/a/pods", "create", "pods"),
            (Method::DELETE, "/api/v1/namespaces/a/pods", "deletecollection", "pods"),
            (Method::DELETE, "/api/v1/namespaces/a/pods/b", "delete", "pods"),
            (Method::PATCH, "/apis/g.io/v1/things/b/status", "patch", "things.g.io/status"),
            (Method::GET, "/version", "get", ""),
        ] {
            assert_eq!(info(method, uri), (verb, resource.to_owned()), "{uri}");
        }
    }
}
