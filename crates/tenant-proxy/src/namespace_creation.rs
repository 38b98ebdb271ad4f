//! Namespaces that owners create.
//!
//! The manager gives the owner rights some milliseconds after the API server has created a namespace. A client that
//! goes on at once, such as `helm install --create-namespace`, would get 403. So the proxy holds back the response
//! until the owner has rights.

use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use http::Response;
use serde_json::Value;
use tokio::time::{sleep, timeout};
use tracing::debug;

use crate::{
    authentication::Authentication,
    error::ProxyError,
    path::is_label,
    self_review::is_allowed,
    short_body::{is_json, read_short},
    upstream::{AsUser, UserRequest},
};

/// Longest time for which a response is held back.
const LIMIT: Duration = Duration::from_secs(2);
/// Shortest and longest time between two reviews.
const INTERVAL: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(320));
/// Most bytes of a namespace, and of a review.
const MAX_BYTES: usize = 64 << 10;

/// Returns whether a request creates a namespace.
pub fn is_creation(method: &str, path: &str, query: &str) -> bool {
    method == "POST" && path == "/api/v1/namespaces" && !query.contains("dryRun")
}

/// Returns the response to the creation of a namespace unchanged, when its user may create Secrets in the namespace,
/// or after two seconds. A response whose namespace cannot be read is returned at once.
///
/// # Errors
/// Returns an error if the response breaks.
pub async fn hold_back(
    response: Response<Body>,
    api_server: &AsUser,
    authentication: &Authentication,
) -> Result<Response<Body>, ProxyError> {
    if !is_json(&response) {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let body = match read_short(body, MAX_BYTES).await {
        Ok(Ok(body)) => body,
        Ok(Err(longer)) => return Ok(Response::from_parts(parts, longer)),
        Err(error) => return Err(ProxyError::Unreadable(error.to_string())),
    };
    if let Some(namespace) = name(&body) {
        let allowed = timeout(LIMIT, until_allowed(&namespace, api_server, authentication)).await;
        if allowed.is_err() {
            debug!(namespace, "an owner has no rights yet in a new namespace");
        }
    }
    Ok(Response::from_parts(parts, body.into()))
}

/// Returns the name of a namespace.
fn name(namespace: &Bytes) -> Option<String> {
    let namespace: Value = serde_json::from_slice(namespace).ok()?;
    let name = namespace.pointer("/metadata/name")?.as_str()?;
    is_label(name).then(|| name.to_owned())
}

async fn until_allowed(namespace: &str, api_server: &AsUser, authentication: &Authentication) {
    let (mut interval, longest) = INTERVAL;
    while !may_create_secrets(namespace, api_server, authentication).await {
        sleep(interval).await;
        interval = longest.min(2 * interval);
    }
}

/// Asks the API server, with the credential of the user.
async fn may_create_secrets(namespace: &str, api_server: &AsUser, authentication: &Authentication) -> bool {
    let review = UserRequest::secrets_review(authentication, namespace);
    let Ok(response) = api_server.send(review).await else { return false };
    let body = to_bytes(response.into_body(), MAX_BYTES).await;
    body.is_ok_and(|body| is_allowed(&body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_requests_create_namespaces() {
        let path = "/api/v1/namespaces";
        assert!(is_creation("POST", path, "") && is_creation("POST", path, "fieldManager=helm"));
        for (method, path, query) in [
            ("GET", path, ""),
            ("POST", path, "dryRun=All"),
            ("POST", "/api/v1/namespaces/", ""),
            ("POST", "/api/v1/namespaces/oil-dev/secrets", ""),
            ("POST", "/api/v1/%6eamespaces", ""),
        ] {
            assert!(!is_creation(method, path, query), "{method} {path} {query}");
        }
    }

    #[test]
    fn name_is_read_from_the_response() {
        let name = |text: &'static str| name(&Bytes::from(text));
        assert_eq!(name(r#"{"metadata": {"name": "oil-dev"}}"#).as_deref(), Some("oil-dev"));
        for text in ["", "{}", r#"{"metadata": {"name": "a/b"}}"#, r#"{"metadata": {"name": 1}}"#] {
            assert_eq!(name(text), None, "{text}");
        }
    }
}
