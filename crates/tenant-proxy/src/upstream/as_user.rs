//! Requests with the credential of a user, or as the user of a client certificate.

use std::{error::Error, mem, net::IpAddr, sync::Arc, time::Duration};

use axum::body::{Body, HttpBody};
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, Uri,
    header::{ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, UPGRADE},
    request::Parts,
    uri::{PathAndQuery, Scheme},
};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::time::timeout;
use tracing::debug;

use super::{
    GuardedBody, Token, UpstreamError,
    endpoint::Protocol,
    kept_body::{KeptBodies, KeptBody},
    pool::{Pool, Stream},
    without_trailers::WithoutTrailers,
};
use crate::{accept::accepts_json, authentication::Authentication, path::group_and_rest, request::forwarded};

/// Timeout of the first byte of a response to a request that is not a stream. The API server has one of
/// 60 s.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(65);

/// Most attempts to send a request that the API server does not process.
const MAX_ATTEMPTS: usize = 8;

/// Sends requests of users.
///
/// Its only token is that of the proxy, if the proxy impersonates the users of client certificates. It is
/// sent with the headers of such a user and no others that say from whom a request is.
#[derive(Clone)]
pub struct AsUser {
    pool: Arc<Pool>,
    impersonator: Option<Arc<Token>>,
    kept_bodies: KeptBodies,
}

/// A request of a user, as the API server gets it.
pub struct UserRequest {
    method: Method,
    target: PathAndQuery,
    headers: HeaderMap,
    body: Body,
    /// Whether the user has a client certificate, and the headers have no token.
    is_impersonated: bool,
}

impl UserRequest {
    /// Returns the request of a user: the bytes of its path and query, its headers but those of this
    /// connection, and its body without trailers.
    pub fn new(parts: &Parts, authentication: &Authentication, peer: IpAddr, body: Body) -> Self {
        let mut headers = forwarded(&parts.headers, peer);
        if authentication.is_impersonated() {
            // The request has none of them: it would have been refused.
            headers.extend(authentication.headers().clone());
        }
        Self {
            method: parts.method.clone(),
            target: target(&parts.uri),
            headers,
            body: if body.is_end_stream() { body } else { Body::new(WithoutTrailers(body)) },
            is_impersonated: authentication.is_impersonated(),
        }
    }

    /// Returns the request that asks who a user is.
    pub fn self_review(authentication: &Authentication) -> Self {
        const REVIEW: &str = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
        Self::review(authentication, "/apis/authentication.k8s.io/v1/selfsubjectreviews", REVIEW)
    }

    /// Returns the request that asks whether a user may read metrics.
    pub fn metrics_review(authentication: &Authentication) -> Self {
        let spec = json!({"nonResourceAttributes": {"path": "/metrics", "verb": "get"}});
        Self::access_review(authentication, &spec)
    }

    /// Returns the request that asks whether a user may create Secrets in a namespace.
    pub fn secrets_review(authentication: &Authentication, namespace: &str) -> Self {
        let attributes =
            json!({"namespace": namespace, "verb": "create", "version": "v1", "resource": "secrets"});
        Self::access_review(authentication, &json!({ "resourceAttributes": attributes }))
    }

    /// Asks for a response in JSON if the user accepts one, so that the proxy can read it.
    #[must_use]
    pub fn in_json(mut self) -> Self {
        if accepts_json(&self.headers) {
            self.headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        }
        self
    }

    fn access_review(authentication: &Authentication, spec: &Value) -> Self {
        let (version, kind) = ("authorization.k8s.io/v1", "SelfSubjectAccessReview");
        let review = json!({"apiVersion": version, "kind": kind, "spec": spec}).to_string();
        Self::review(authentication, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    }

    fn review(authentication: &Authentication, path: &'static str, review: impl Into<Body>) -> Self {
        const JSON: HeaderValue = HeaderValue::from_static("application/json");
        let mut headers = authentication.headers().clone();
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(ACCEPT, JSON);
        Self {
            method: Method::POST,
            target: PathAndQuery::from_static(path),
            headers,
            body: review.into(),
            is_impersonated: authentication.is_impersonated(),
        }
    }

    /// Returns whether the response can begin at any time: watches, logs that are followed, and whatever
    /// a Pod or a Service returns.
    fn is_stream(&self) -> bool {
        let query = self.target.query().unwrap_or_default();
        let asks = ["watch", "follow"].iter().any(|name| query.contains(name));
        asks || self.method != Method::GET || self.is_for_endpoint()
    }

    /// Returns whether a Pod or a Service gets the request. Its response can begin before the body has ended.
    fn is_for_endpoint(&self) -> bool {
        is_endpoint(self.target.path())
    }
}

/// Returns whether a path is that of the subresource `proxy` of a Pod, a Service, or a node.
fn is_endpoint(path: &str) -> bool {
    let Some(("", mut parts)) = group_and_rest(path) else { return false };
    // After the version, and after the name of a namespace.
    let first = parts.nth(1);
    let resource = if first == Some("namespaces") { parts.nth(1) } else { first };
    resource.is_some() && parts.nth(1) == Some("proxy")
}

fn target(uri: &Uri) -> PathAndQuery {
    uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"))
}

impl AsUser {
    /// Returns a sender on these connections. With `impersonator`, the token of the proxy, it impersonates the
    /// users of client certificates.
    pub fn new(pool: Arc<Pool>, impersonator: Option<Arc<Token>>) -> Self {
        Self { pool, impersonator, kept_bodies: KeptBodies::default() }
    }

    /// Adds the token of the proxy if it impersonates the user. Without the token, the API server refuses the
    /// request.
    fn authenticate(&self, headers: &mut HeaderMap, is_impersonated: bool) {
        if let Some(token) = self.impersonator.as_ref().filter(|_| is_impersonated) {
            headers.insert(AUTHORIZATION, token.header());
        }
    }

    /// Sends a request and returns the response, whose body follows as it comes.
    ///
    /// # Errors
    /// Returns an error if the body of the request cannot be read, if there is no connection, or if the response
    /// does not begin.
    pub async fn send(&self, mut request: UserRequest) -> Result<Response<Body>, UpstreamError> {
        let limit = if request.is_stream() { None } else { Some(FIRST_BYTE_TIMEOUT) };
        let kept = self.keep_body(&mut request).await?;
        let sent = send(&self.pool, self.http2(request), kept.as_ref());
        match limit {
            None => sent.await,
            Some(limit) => timeout(limit, sent).await.map_err(|_| UpstreamError::Timeout(limit))?,
        }
    }

    /// Keeps the body of a request if that is possible.
    async fn keep_body(&self, request: &mut UserRequest) -> Result<Option<KeptBody>, UpstreamError> {
        if request.is_for_endpoint() && !request.body.is_end_stream() {
            return Ok(None);
        }
        match self.kept_bodies.keep(mem::take(&mut request.body)).await? {
            Ok(kept) => {
                request.body = kept.body();
                Ok(Some(kept))
            }
            Err(body) => {
                request.body = body;
                Ok(None)
            }
        }
    }

    fn http2(&self, request: UserRequest) -> Request<Body> {
        let UserRequest { method, target, mut headers, body, is_impersonated } = request;
        self.authenticate(&mut headers, is_impersonated);
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri(&self.pool, target);
        *request.headers_mut() = headers;
        request
    }

    /// Sends a request for another protocol, on a connection of its own.
    ///
    /// # Errors
    /// Returns an error if there is no connection, or if the response does not begin.
    pub async fn upgrade(
        &self,
        request: UserRequest,
        protocol: HeaderValue,
    ) -> Result<Response<Incoming>, UpstreamError> {
        let UserRequest { method, target, mut headers, body, is_impersonated } = request;
        self.authenticate(&mut headers, is_impersonated);
        let stream = self.pool.endpoint().connect(Protocol::Http1).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                debug!(%error, "a connection to the API server broke");
            }
        });
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, protocol);
        if let Ok(host) = HeaderValue::from_str(self.pool.endpoint().authority().as_str()) {
            headers.insert(HOST, host);
        }
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = Uri::from(target);
        *request.headers_mut() = headers;
        Ok(sender.send_request(request).await?)
    }
}

/// Returns the address of a path of the API server.
pub(super) fn uri(pool: &Pool, target: PathAndQuery) -> Uri {
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(Scheme::HTTPS);
    parts.authority = Some(pool.endpoint().authority().clone());
    parts.path_and_query = Some(target);
    // All three parts are present, so they are an address.
    Uri::from_parts(parts).unwrap_or_default()
}

/// Sends a request on a connection of the pool. If the connection ends before the API server has processed the
/// request, it is sent on another one. One whose body is not kept is not, once it was sent.
///
/// After a request with a credential that it does not accept, the API server ends the connection, which other
/// users share.
pub(super) async fn send(
    pool: &Pool,
    mut request: Request<Body>,
    kept: Option<&KeptBody>,
) -> Result<Response<Body>, UpstreamError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let copy = kept.filter(|_| attempts < MAX_ATTEMPTS).map(|kept| copy(&request, kept.body()));
        let stream = pool.stream().await?;
        let mut sender = stream.sender();
        match sender.try_send_request(request).await {
            Ok(response) => return Ok(streamed(response, stream)),
            Err(mut error) => {
                let unsent = error.take_message();
                let error = error.into_error();
                request = unsent.or_else(|| copy.filter(|_| is_unprocessed(&error))).ok_or(error)?;
            }
        }
    }
}

/// Returns a copy of a request, with this body.
fn copy(request: &Request<Body>, body: Body) -> Request<Body> {
    let mut copy = Request::new(body);
    copy.method_mut().clone_from(request.method());
    copy.uri_mut().clone_from(request.uri());
    copy.headers_mut().clone_from(request.headers());
    copy
}

/// Returns whether the API server ended the connection without having processed the request: HTTP/2 says so in
/// the GOAWAY frame.
fn is_unprocessed(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|source| source.downcast_ref::<h2::Error>());
    cause.is_some_and(|cause| {
        cause.is_go_away() && cause.is_remote() && cause.reason() == Some(h2::Reason::NO_ERROR)
    })
}

/// Keeps the place on the connection until the end of the response.
fn streamed(response: Response<Incoming>, stream: Stream) -> Response<Body> {
    response.map(|body| Body::new(GuardedBody::new(body, stream)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_told_by_the_place_of_the_subresource() {
        for path in [
            "/api/v1/namespaces/shop/pods/web/proxy",
            "/api/v1/namespaces/shop/services/https:web:443/proxy/metrics",
            "/api/v1/nodes/worker-0/proxy/stats",
        ] {
            assert!(is_endpoint(path), "{path}");
        }
        for path in [
            "/api/v1/namespaces/proxy/pods/proxy",
            "/api/v1/namespaces/proxy-team/configmaps/a",
            "/api/v1/namespaces/shop/configmaps/proxy",
            "/apis/example.com/v1/things/a/proxy",
            "/api/v1/namespaces/proxy",
        ] {
            assert!(!is_endpoint(path), "{path}");
        }
    }
}
