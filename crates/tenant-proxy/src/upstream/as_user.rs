//! Requests with the credential of a user.

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::body::{Body, HttpBody};
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, Uri,
    header::{ACCEPT, CONNECTION, CONTENT_TYPE, HOST, UPGRADE},
    request::Parts,
    uri::{PathAndQuery, Scheme},
};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use tracing::debug;

use super::{
    GuardedBody, UpstreamError,
    endpoint::Protocol,
    pool::{Pool, Stream},
    without_trailers::WithoutTrailers,
};
use crate::{accept::accepts_json, credential::of_identity, request::forwarded};

/// Timeout of the first byte of a response to a request that is not a stream. The API server has one of
/// 60 s.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(65);

/// Sends requests of users. It has no credential of its own.
#[derive(Clone)]
pub struct AsUser {
    pool: Arc<Pool>,
}

/// A request of a user, as the API server gets it.
pub struct UserRequest {
    method: Method,
    target: PathAndQuery,
    headers: HeaderMap,
    body: Body,
}

impl UserRequest {
    /// Returns the request of a user: the bytes of its path and query, its headers but those of this
    /// connection, and its body without trailers.
    pub fn new(parts: &Parts, peer: IpAddr, body: Body) -> Self {
        Self {
            method: parts.method.clone(),
            target: target(&parts.uri),
            headers: forwarded(&parts.headers, peer),
            body: if body.is_end_stream() { body } else { Body::new(WithoutTrailers(body)) },
        }
    }

    /// Returns the request that asks who a user is, with the credential in these headers.
    pub fn self_review(headers: &HeaderMap) -> Self {
        const REVIEW: &str = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
        Self::review(headers, "/apis/authentication.k8s.io/v1/selfsubjectreviews", REVIEW)
    }

    /// Returns the request that asks whether a user may read metrics, with the credential in these headers.
    pub fn metrics_review(headers: &HeaderMap) -> Self {
        const REVIEW: &str = r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview",
            "spec":{"nonResourceAttributes":{"path":"/metrics","verb":"get"}}}"#;
        Self::review(headers, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", REVIEW)
    }

    /// Asks for a response in JSON if the user accepts one, so that the proxy can read it.
    #[must_use]
    pub fn in_json(mut self) -> Self {
        if accepts_json(&self.headers) {
            self.headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        }
        self
    }

    fn review(headers: &HeaderMap, path: &'static str, review: &'static str) -> Self {
        const JSON: HeaderValue = HeaderValue::from_static("application/json");
        let mut copied: HeaderMap =
            of_identity(headers).map(|(name, value)| (name.clone(), value.clone())).collect();
        copied.insert(CONTENT_TYPE, JSON);
        copied.insert(ACCEPT, JSON);
        Self {
            method: Method::POST,
            target: PathAndQuery::from_static(path),
            headers: copied,
            body: Body::from(review),
        }
    }

    /// Returns whether the response can begin at any time: watches, logs that are followed, and whatever
    /// a Pod or a Service returns.
    fn is_stream(&self) -> bool {
        let query = self.target.query().unwrap_or_default();
        let asks = ["watch", "follow"].iter().any(|name| query.contains(name));
        asks || self.method != Method::GET || self.target.path().contains("/proxy")
    }
}

fn target(uri: &Uri) -> PathAndQuery {
    uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"))
}

impl AsUser {
    /// Returns a sender on these connections.
    pub fn new(pool: Arc<Pool>) -> Self {
        Self { pool }
    }

    /// Sends a request and returns the response, whose body follows as it comes.
    ///
    /// # Errors
    /// Returns an error if there is no connection, or if the response does not begin.
    pub async fn send(&self, request: UserRequest) -> Result<Response<Body>, UpstreamError> {
        let limit = if request.is_stream() { None } else { Some(FIRST_BYTE_TIMEOUT) };
        let sent = send(&self.pool, self.http2(request));
        match limit {
            None => sent.await,
            Some(limit) => timeout(limit, sent).await.map_err(|_| UpstreamError::Timeout(limit))?,
        }
    }

    fn http2(&self, UserRequest { method, target, headers, body }: UserRequest) -> Request<Body> {
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
        UserRequest { method, target, mut headers, body }: UserRequest,
        protocol: HeaderValue,
    ) -> Result<Response<Incoming>, UpstreamError> {
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

/// Sends a request on a connection of the pool. If the connection ends before the request is sent, another
/// connection is used.
pub(super) async fn send(pool: &Pool, mut request: Request<Body>) -> Result<Response<Body>, UpstreamError> {
    loop {
        let stream = pool.stream().await?;
        let mut sender = stream.sender();
        match sender.try_send_request(request).await {
            Ok(response) => return Ok(streamed(response, stream)),
            Err(mut error) => match error.take_message() {
                Some(unsent) => request = unsent,
                None => return Err(error.into_error().into()),
            },
        }
    }
}

/// Keeps the place on the connection until the end of the response.
fn streamed(response: Response<Incoming>, stream: Stream) -> Response<Body> {
    response.map(|body| Body::new(GuardedBody::new(body, stream)))
}
