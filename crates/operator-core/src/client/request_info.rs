//! What a request asks of the API server, in the API server's own terms.

use http::{Method, Request};
use tracing::{Span, debug_span, field::Empty};

/// Verb and resource of a request, as RBAC, the audit log and the API server's own metrics name them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestInfo {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: &'static str,
    /// Plural, group and subresource: `pods`, `podsets.app.example.com/status`. Empty for a path that is no resource's.
    pub resource: String,
}

impl RequestInfo {
    /// Reads it from method, path and query.
    pub fn of<B>(request: &Request<B>) -> Self {
        let Target { resource, is_object } = target(request.uri().path());
        Self { verb: verb(request, is_object), resource }
    }

    /// The span of sending it: a part of the work that it is sent for, and none if it is sent for no work in
    /// particular, as those of watches are. The answer's `code` is recorded when it is known.
    pub(super) fn span(&self) -> Span {
        if Span::current().is_none() {
            return Span::none();
        }
        debug_span!("request", verb = self.verb, resource = self.resource, code = Empty)
    }

    /// Whether it follows changes and so lasts.
    pub fn is_watch(&self) -> bool {
        self.verb == "watch"
    }

    /// Whether it may change something.
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

/// What a path names.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    resource: String,
    /// Whether it is one object rather than all of them.
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
    // `namespaces/<name>/<plural>` is the collection of a namespace; `namespaces/<name>/status` is not.
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

    fn asked(method: Method, uri: &str) -> (&'static str, String) {
        let RequestInfo { verb, resource } =
            RequestInfo::of(&Request::builder().method(method).uri(uri).body(()).unwrap());
        (verb, resource)
    }

    #[test]
    fn verb_and_resource_are_those_of_rbac() {
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
            assert_eq!(asked(method, uri), (verb, resource.to_owned()), "{uri}");
        }
    }
}
