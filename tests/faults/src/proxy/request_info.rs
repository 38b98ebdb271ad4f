//! Parses requests. Pure functions.

use std::fmt;

use http::Method;
use serde_json::Value;

use crate::token::Token;

/// A request to the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`
    pub verb: &'static str,
    /// The plural of the resource with group and subresource: `pods`, `deployments.apps`,
    /// `podsets.app.example.com/status`.
    pub resource: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Empty for lists and generated names.
    pub name: String,
}

impl RequestInfo {
    /// Parses a request. Returns `None` for non-resource requests.
    pub fn read(method: &Method, path: &str, query: &str, body: &[u8]) -> Option<Self> {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        let group = match parts.next()? {
            "api" => "",
            "apis" => parts.next()?,
            _ => return None,
        };
        let _version = parts.next()?;
        let rest: Vec<_> = parts.collect();
        let (namespace, resource, name, subresource) = match *rest.as_slice() {
            ["namespaces", namespace, resource, ref rest @ ..]
                if !["status", "finalize"].contains(&resource) =>
            {
                (namespace, resource, rest.first().copied(), rest.get(1).copied())
            }
            [resource, ref rest @ ..] => ("", resource, rest.first().copied(), rest.get(1).copied()),
            [] => return None,
        };
        let verb = verb(method, name.is_some(), query)?;
        let name = match (verb, name) {
            ("create", None) => named(body).unwrap_or_default(),
            (_, name) => name.unwrap_or_default().to_owned(),
        };
        let mut full = resource.to_owned();
        for (separator, part) in [('.', group), ('/', subresource.unwrap_or_default())] {
            if !part.is_empty() {
                full.push(separator);
                full.push_str(part);
            }
        }
        Some(Self { verb, resource: full, namespace: namespace.to_owned(), name })
    }

    /// Returns whether the request is a write.
    pub fn is_write(&self) -> bool {
        !["get", "list", "watch"].contains(&self.verb)
    }

    /// Returns the run that the request belongs to.
    pub fn token(&self) -> Option<Token> {
        Token::of(&self.namespace, &self.name)
    }

    /// Returns the key, which is the same in all runs of the workload.
    pub fn key(&self) -> Key {
        let place = match self.token() {
            Some(token) => token.erase(&format!("{}/{}", self.namespace, self.name)),
            None => format!("{}/{}", self.namespace, self.name),
        };
        let name = if self.resource.starts_with("events") { "*".to_owned() } else { any_name(&place) };
        Key { verb: self.verb.to_owned(), resource: self.resource.clone(), name }
    }
}

fn verb(method: &Method, is_named: bool, query: &str) -> Option<&'static str> {
    let watches = query.split('&').any(|part| ["watch=true", "watch=1", "watch"].contains(&part));
    Some(match (method, is_named) {
        (&Method::GET, _) if watches => "watch",
        (&Method::GET, true) => "get",
        (&Method::GET, false) => "list",
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, true) => "delete",
        (&Method::DELETE, false) => "deletecollection",
        _ => return None,
    })
}

/// Returns the name of the object in a body.
fn named(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    Some(body.pointer("/metadata/name")?.as_str()?.to_owned())
}

/// Removes a trailing number, because equal Pods are created in any order.
fn any_name(name: &str) -> String {
    match name.rsplit_once("-pod-") {
        Some((maker, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => format!("{maker}-pod-#"),
        _ => name.to_owned(),
    }
}

/// Identifies a write in all runs of a workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// As in [`RequestInfo`].
    pub verb: String,
    /// As in [`RequestInfo`].
    pub resource: String,
    /// Namespace and name without the token of the run.
    pub name: String,
}

impl Key {
    /// Returns whether the number of these writes depends on time, as for status, Events, and records on
    /// volumes: one write can have several changes. Leases are renewed.
    pub fn depends_on_time(&self) -> bool {
        let is_record = self.verb == "patch" && self.resource == "persistentvolumeclaims";
        let is_lease = self.resource.starts_with("leases");
        is_lease || is_record || self.resource.ends_with("/status") || self.resource.starts_with("events")
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.verb, self.resource, self.name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(method: Method, uri: &str, body: &Value) -> RequestInfo {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        RequestInfo::read(&method, path, query, body.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn parses_requests() {
        let pod = json!({ "metadata": { "name": "r000001-pod-3" } });
        for (method, uri, verb, resource, namespace, name) in [
            (Method::POST, "/api/v1/namespaces/n/pods", "create", "pods", "n", "r000001-pod-3"),
            (Method::GET, "/api/v1/pods?watch=true&x=1", "watch", "pods", "", ""),
            (Method::GET, "/api/v1/namespaces/n/pods?limit=1", "list", "pods", "n", ""),
            (Method::GET, "/api/v1/namespaces/n", "get", "namespaces", "", "n"),
            (Method::PUT, "/api/v1/namespaces/n/finalize", "update", "namespaces/finalize", "", "n"),
            (Method::DELETE, "/api/v1/namespaces/n", "delete", "namespaces", "", "n"),
            (
                Method::PATCH,
                "/apis/apps/v1/namespaces/n/deployments/d",
                "patch",
                "deployments.apps",
                "n",
                "d",
            ),
            (Method::PUT, "/apis/a.b/v1/xs/x/status", "update", "xs.a.b/status", "", "x"),
            (Method::DELETE, "/apis/a.b/v1/xs", "deletecollection", "xs.a.b", "", ""),
        ] {
            let info = read(method, uri, &pod);
            let seen = (info.verb, info.resource.as_str(), info.namespace.as_str(), info.name.as_str());
            assert_eq!(seen, (verb, resource, namespace, name), "{uri}");
        }
    }

    #[test]
    fn ignores_non_resource_requests() {
        for path in ["/version", "/api", "/apis/apps/v1", "/readyz"] {
            assert_eq!(RequestInfo::read(&Method::GET, path, "", b""), None, "{path}");
        }
    }

    #[test]
    fn equal_writes_of_different_runs_have_equal_keys() {
        let key = |name: &str| {
            let body = json!({ "metadata": { "name": name } });
            read(Method::POST, "/api/v1/namespaces/n/pods", &body).key()
        };
        assert_eq!(key("r000001-pod-3"), key("r000002-pod-0"));
        assert_eq!(key("r000001-pod-3").to_string(), "create pods n/RUN-pod-#");
    }
}
