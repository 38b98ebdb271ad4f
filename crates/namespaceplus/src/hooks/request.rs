//! Builds the HTTP request of a call. Pure functions.

use std::collections::BTreeMap;

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Uri,
    header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING, USER_AGENT},
    uri::PathAndQuery,
};
use http_body_util::Full;
use hyper::body::Bytes;
use k8s_openapi::ByteString;
use kube::ResourceExt;
use operator_core::{
    error::{chain, is_not_found, status},
    template::render,
};
use serde_json::json;

use super::plan::Call;
use crate::api::{Hook, HookMethod, NamespacePlus};

/// Header that is the same for all attempts of a call.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Headers that a Secret cannot set, in addition to [`IDEMPOTENCY_KEY`].
const RESERVED_HEADERS: [HeaderName; 4] = [HOST, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION];

/// Entries of a Secret: header names and values.
pub(super) type Headers = BTreeMap<String, ByteString>;

/// Reason why a call failed. Never contains data of a Secret or of a response.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    /// The Secret does not exist or cannot be read.
    #[error("{0}")]
    Secret(String),
    /// An entry of the Secret is not a valid header.
    #[error(
        "the entry {0:?} of the Secret is not a header that can be set; use a header name as key and a single line as value"
    )]
    Header(String),
    /// The URL is invalid.
    #[error("the url is invalid: {0}")]
    Url(&'static str),
    /// The URL has no TLS.
    #[error(
        "the url has no TLS and the manager does not allow that for {0}; use https://, or have an administrator add \
         the host to --namespaceplus-http-hosts"
    )]
    Plain(String),
    /// The machine has no trusted certificate authorities.
    #[error("the manager found no trusted certificate authorities: {0}")]
    NoAuthorities(String),
    /// The CA bundle cannot be read.
    #[error("the manager cannot read the CA bundle {path} (--namespaceplus-ca-bundle): {cause}")]
    Bundle {
        /// Path of the file.
        path: String,
        /// Cause.
        cause: String,
    },
    /// The certificate of the receiver is not valid.
    #[error("the certificate is not accepted: {0}")]
    Certificate(String),
    /// The response timed out.
    #[error("no response within {seconds} s")]
    NoAnswer {
        /// The timeout.
        seconds: u64,
    },
    /// The connection failed.
    #[error("cannot connect to the receiver: {0}")]
    Unreachable(String),
    /// The receiver redirects the call.
    #[error(
        "the receiver answered {0}, and redirects are not followed; use the target of the redirect as url"
    )]
    Redirects(u16),
    /// The receiver rejected the call.
    #[error("the receiver answered {0}")]
    Refuses(u16),
}

impl CallError {
    /// Classifies an error from reading a Secret.
    pub(super) fn secret(namespace: &str, name: &str, error: &kube::Error) -> Self {
        let forbidden = status(error).is_some_and(kube::core::Status::is_forbidden);
        Self::Secret(if is_not_found(error) {
            format!("Secret {name} does not exist in namespace {namespace}")
        } else if forbidden {
            format!(
                "the manager is not allowed to read Secret {name}; to allow it, an administrator runs: \
                 kubectl apply --namespace={namespace} -f deploy/rbac/optional/hook-secrets.yaml"
            )
        } else {
            format!("cannot read Secret {name}: {}", chain(error))
        })
    }
}

/// A request and its target.
pub(super) struct OutgoingRequest {
    pub(super) to: Uri,
    pub(super) request: Request<Full<Bytes>>,
}

/// Builds the request of a call.
pub(super) fn request(
    object: &NamespacePlus,
    call: &Call<'_>,
    headers: Headers,
    http_hosts: &[String],
) -> Result<OutgoingRequest, CallError> {
    let to = allowed(&call.hook.url, http_hosts)?;
    let mut request = Request::new(Full::new(Bytes::from(body(object, call))));
    *request.method_mut() = method(call.hook);
    *request.headers_mut() = all_headers(&call.id, headers)?;
    let host = to.authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok());
    request.headers_mut().insert(HOST, host.ok_or(CallError::Url("the host is not a valid header value"))?);
    let path = to.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
    *request.uri_mut() = Uri::from(path);
    Ok(OutgoingRequest { to, request })
}

fn method(hook: &Hook) -> Method {
    match hook.method {
        HookMethod::Post => Method::POST,
        HookMethod::Put => Method::PUT,
        HookMethod::Patch => Method::PATCH,
        HookMethod::Get => Method::GET,
        HookMethod::Delete => Method::DELETE,
    }
}

/// Parses the URL and checks that calls to it are allowed.
fn allowed(url: &str, http_hosts: &[String]) -> Result<Uri, CallError> {
    let uri: Uri = url.parse().map_err(|_| CallError::Url("it cannot be parsed"))?;
    let authority = uri.authority().ok_or(CallError::Url("it has no host"))?;
    if authority.as_str().contains('@') {
        return Err(CallError::Url(
            "it contains a user or password; move it to a header with headersSecretRef",
        ));
    }
    match uri.scheme_str() {
        Some("https") => Ok(uri),
        Some("http") => {
            let (host, whole) = (uri.host().unwrap_or_default(), authority.as_str());
            let is_listed = |name: &str| http_hosts.iter().any(|listed| listed.eq_ignore_ascii_case(name));
            if is_listed(host) || is_listed(whole) {
                Ok(uri)
            } else {
                Err(CallError::Plain(whole.to_owned()))
            }
        }
        _ => Err(CallError::Url("it must begin with https:// or http://")),
    }
}

fn all_headers(id: &str, secret: Headers) -> Result<HeaderMap, CallError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("ensemble/", env!("CARGO_PKG_VERSION"))));
    for (entry, value) in secret {
        // Files often end with a line feed, and so do Secrets that are created from files.
        let value = HeaderValue::from_bytes(value.0.trim_ascii_end());
        match (entry.parse::<HeaderName>(), value) {
            (Ok(name), Ok(mut value)) if name != IDEMPOTENCY_KEY && !RESERVED_HEADERS.contains(&name) => {
                value.set_sensitive(true);
                headers.insert(name, value);
            }
            _ => return Err(CallError::Header(entry)),
        }
    }
    let id = HeaderValue::from_str(id)
        .map_err(|_| CallError::Url("the name of the hook is not a valid header value"))?;
    headers.insert(IDEMPOTENCY_KEY, id);
    Ok(headers)
}

fn body(object: &NamespacePlus, call: &Call<'_>) -> String {
    let (home, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let (uid, event, hook) = (object.uid().unwrap_or_default(), call.event.as_str(), &call.hook.name);
    match &call.hook.body_template {
        Some(template) => render(template, |key| match key {
            "event" => Some(event.to_owned()),
            "hook" => Some(hook.clone()),
            "id" => Some(call.id.clone()),
            "namespace" | "owner.name" => Some(name.clone()),
            "owner.namespace" => Some(home.clone()),
            "owner.uid" => Some(uid.clone()),
            _ => None,
        }),
        None => json!({
            "event": event,
            "hook": hook,
            "id": call.id,
            "namespace": name,
            "owner": { "namespace": home, "name": name, "uid": uid },
        })
        .to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::{
        api::HookEvent,
        hooks::plan::{Occurrence, calls},
        testing::object,
    };

    fn secret<const N: usize>(entries: [(&str, &str); N]) -> Headers {
        entries.map(|(name, value)| (name.to_owned(), ByteString(value.as_bytes().to_vec()))).into()
    }

    fn made(hook: Value, headers: Headers) -> Result<(http::request::Parts, String), CallError> {
        let mut hook = hook;
        hook["name"] = "chat".into();
        hook["on"] = json!(["Created"]);
        let object = object(json!({ "hooks": [hook] }));
        let occurrences = [Occurrence { event: HookEvent::Created, occurrence_id: "n-1".into() }];
        let call = calls(&object, &occurrences).remove(0);
        let hosts = ["chat.local".to_owned(), "ci.local:8080".to_owned()];
        let outgoing = request(&object, &call, headers, &hosts)?;
        Ok((outgoing.request.into_parts().0, body(&object, &call)))
    }

    fn refused(url: &str) -> String {
        made(json!({ "url": url }), Headers::new()).unwrap_err().to_string()
    }

    #[test]
    fn request_describes_event_and_has_idempotency_key() {
        let (parts, body) =
            made(json!({ "url": "https://chat.example.com:8443/in?a=b" }), Headers::new()).unwrap();
        assert_eq!((parts.method, parts.uri.to_string()), (Method::POST, "/in?a=b".to_owned()));
        assert_eq!(parts.headers["host"], "chat.example.com:8443");
        let id = parts.headers["idempotency-key"].to_str().unwrap();
        let event: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((event["event"].as_str(), event["namespace"].as_str()), (Some("Created"), Some("blue")));
        assert_eq!(event["owner"]["namespace"], "teams");
        assert_eq!(event["id"], id);
        assert_eq!(parts.headers["content-type"], "application/json");
    }

    #[test]
    fn renders_body_template() {
        let hook = json!({ "url": "https://a.b/", "bodyTemplate": "{{event}} {{ namespace }} {{other}} by {{owner.namespace}}" });
        assert_eq!(made(hook, Headers::new()).unwrap().1, "Created blue {{other}} by teams");
    }

    #[test]
    fn secret_sets_all_but_reserved_headers() {
        let (parts, _) = made(
            json!({ "url": "https://a.b/" }),
            secret([("Authorization", "Bearer x\n"), ("content-type", "text/plain")]),
        )
        .unwrap();
        assert_eq!(parts.headers["authorization"], "Bearer x");
        assert!(parts.headers["authorization"].is_sensitive());
        assert_eq!(parts.headers["content-type"], "text/plain");
        for name in ["Host", "idempotency-key", "content-length", "a b"] {
            let error =
                made(json!({ "url": "https://a.b/" }), secret([(name, "hidden")])).unwrap_err().to_string();
            assert!(error.contains(name) && !error.contains("hidden"), "{error}");
        }
        let error = made(json!({ "url": "https://a.b/" }), secret([("x", "two\r\nlines")])).unwrap_err();
        assert!(!error.to_string().contains("lines"), "{error}");
    }

    #[test]
    fn allows_http_only_for_listed_hosts() {
        for url in ["http://chat.local/x", "http://CHAT.local:81/x", "http://ci.local:8080/"] {
            made(json!({ "url": url }), Headers::new()).unwrap();
        }
        assert!(refused("http://ci.local/").contains("--namespaceplus-http-hosts"));
        assert!(refused("http://chat.local.example.com/").contains("no TLS"));
        assert!(refused("http://chat.local@example.com/").contains("user or password"));
        assert!(refused("https://me:secret@example.com/").contains("headersSecretRef"));
        assert!(refused("/only/a/path").contains("has no host"));
    }
}
