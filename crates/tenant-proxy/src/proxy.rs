//! How a request is handled.
//!
//! ```text
//! request -> check (400, 401, 429) -> as the user -> response
//!                                          \-> 403, and a view matches -> who is the user
//!                                                  -> what does the user own -> view
//! ```

use std::{net::IpAddr, sync::Arc, time::Instant};

use axum::{body::Body, response::IntoResponse};
use http::{
    HeaderValue, Request, Response, StatusCode, Version,
    header::{CONNECTION, UPGRADE},
    request::Parts,
};
use hyper::body::Incoming;
use operator_runtime::server::{ClientCertificate, ConnectionHandle, Peer};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::debug;

use crate::{
    authentication::Authentication,
    credential::Credential,
    error::ProxyError,
    forbidden_lists::ForbiddenLists,
    limits::ConcurrencyLimit,
    metrics::{self, ProxyMetrics, Route},
    named_object::NamedObject,
    namespace_creation,
    request::{check, end_to_end},
    self_review::SelfReview,
    tunnel::{self, Tunnel},
    upstream::{AsUser, GuardedBody, UserRequest},
    views::Views,
};

/// Most requests of one credential at once.
const MAX_REQUESTS: usize = 512;

/// The proxy.
pub struct Proxy {
    for_users: AsUser,
    views: Views,
    metrics: Arc<ProxyMetrics>,
    forbidden_lists: ForbiddenLists,
    requests: ConcurrencyLimit<Credential>,
    /// Connections that have switched their protocol.
    tunnels: TaskTracker,
    /// Ends those connections.
    end_tunnels: CancellationToken,
}

/// Response, how it was produced, and the tunnel of a connection that was upgraded.
struct RoutedResponse {
    route: Route,
    response: Response<Body>,
    tunnel: Option<Tunnel>,
}

impl Proxy {
    /// Returns a proxy with these views.
    pub fn new(for_users: AsUser, views: Views, metrics: Arc<ProxyMetrics>) -> Self {
        Self {
            for_users,
            views,
            metrics,
            forbidden_lists: ForbiddenLists::default(),
            requests: ConcurrencyLimit::new(MAX_REQUESTS),
            tunnels: TaskTracker::new(),
            end_tunnels: CancellationToken::new(),
        }
    }

    /// Waits until all switched connections have ended, such as those of shells.
    pub async fn tunnels_ended(&self) {
        self.tunnels.close();
        self.tunnels.wait().await;
    }

    /// Ends all switched connections.
    pub fn end_tunnels(&self) {
        self.end_tunnels.cancel();
    }

    /// Answers a request.
    pub async fn handle(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let (is_upgrade, began) = (is_upgrade(&request), Instant::now());
        let RoutedResponse { route, mut response, tunnel } =
            self.respond(request).await.unwrap_or_else(|error| {
                debug!(%error, "returned an error");
                RoutedResponse { route: Route::Error, response: error.into_response(), tunnel: None }
            });
        if is_upgrade && response.status() != StatusCode::SWITCHING_PROTOCOLS {
            // What follows on the connection could be of the other protocol.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let in_progress = self.metrics.record_response(route, response.status(), began);
        let Some(tunnel) = tunnel else {
            return response.map(|body| Body::new(GuardedBody::new(body, in_progress)));
        };
        self.copy(tunnel, in_progress);
        response
    }

    /// Copies the bytes of a switched connection until it ends, or until the proxy does.
    fn copy(&self, tunnel: Tunnel, in_progress: metrics::ResponseInProgress) {
        let end = self.end_tunnels.clone();
        self.tunnels.spawn(async move {
            end.run_until_cancelled(tunnel).await;
            drop(in_progress);
        });
    }

    async fn respond(&self, request: Request<Incoming>) -> Result<RoutedResponse, ProxyError> {
        check(request.method(), request.uri(), request.version(), request.headers())?;
        let certificate = request.extensions().get::<ClientCertificate>();
        let authentication = Authentication::of(request.headers(), certificate)?;
        let permit = self.requests.try_acquire(authentication.credential()).ok_or(ProxyError::TooMany)?;
        let mut routed = if is_upgrade(&request) {
            self.upgrade(request, &authentication).await?
        } else {
            let (parts, body) = request.into_parts();
            let (route, response) = self.forward_or_view(&parts, Body::new(body), &authentication).await?;
            RoutedResponse { route, response, tunnel: None }
        };
        routed.response = routed.response.map(|body| Body::new(GuardedBody::new(body, permit)));
        Ok(routed)
    }

    /// Forwards a request for another protocol.
    async fn upgrade(
        &self,
        request: Request<Incoming>,
        authentication: &Authentication,
    ) -> Result<RoutedResponse, ProxyError> {
        let (Some(protocol), Some(connection)) = (
            request.headers().get(UPGRADE).cloned(),
            request.extensions().get::<ConnectionHandle>().cloned(),
        ) else {
            return Err(ProxyError::NoView("the connection is unknown".to_owned()));
        };
        let of_user = |request: Request<Incoming>| {
            let (parts, body) = request.into_parts();
            UserRequest::new(&parts, authentication, peer(&parts), Body::new(body))
        };
        let (response, tunnel) =
            tunnel::open(&self.for_users, request, protocol, connection.hold(), of_user).await?;
        Ok(RoutedResponse { route: Route::Upgrade, response, tunnel })
    }

    /// Forwards a request. If the API server forbids it and it has a view, returns the view.
    async fn forward_or_view(
        &self,
        parts: &Parts,
        body: Body,
        authentication: &Authentication,
    ) -> Result<(Route, Response<Body>), ProxyError> {
        let request = UserRequest::new(parts, authentication, peer(parts), body);
        let (method, path) = (parts.method.as_str(), parts.uri.path());
        if let Some(review) = SelfReview::of(method, path) {
            let (route, response) = self.forward(request.in_json()).await?;
            let amended = self.views.amended(review, response, authentication).await?;
            return Ok((route, amended));
        }
        let Some(requested) = self.views.requested(parts, authentication) else {
            let (route, response) = self.forward(request).await?;
            let query = parts.uri.query().unwrap_or_default();
            if response.status() == StatusCode::FORBIDDEN
                && let Some(object) = NamedObject::of(method, path, query)
                && self.views.is_missing(&object, authentication).await?
            {
                return Err(ProxyError::NotFound(object));
            }
            if response.status() == StatusCode::CREATED
                && namespace_creation::is_creation(method, path, query)
                && self.views.is_owner(authentication).await
            {
                let held_back = namespace_creation::hold_back(response, &self.for_users, authentication);
                return Ok((route, held_back.await?));
            }
            return Ok((route, response));
        };
        let credential = authentication.credential();
        let resource = requested.view().resource();
        let route = if requested.is_watch() { Route::Watch } else { Route::View };
        if self.forbidden_lists.has(credential, resource) {
            if let Some(response) = self.views.show(&requested).await? {
                return Ok((route, response));
            }
            return self.forward(request).await;
        }
        let (forward, response) = self.forward(request).await?;
        if response.status() != StatusCode::FORBIDDEN {
            return Ok((forward, response));
        }
        let Some(view) = self.views.show(&requested).await? else { return Ok((forward, response)) };
        // Who may not read one object may still list all of them.
        if requested.view().name().is_none() {
            self.forbidden_lists.add(credential, resource);
        }
        Ok((route, view))
    }

    async fn forward(&self, request: UserRequest) -> Result<(Route, Response<Body>), ProxyError> {
        let mut response = self.for_users.send(request).await?;
        *response.headers_mut() = end_to_end(response.headers());
        Ok((Route::Forward, response))
    }
}

/// Returns whether a request is for another protocol.
fn is_upgrade(request: &Request<Incoming>) -> bool {
    request.version() == Version::HTTP_11 && request.headers().contains_key(UPGRADE)
}

/// Returns the address of the client.
fn peer(parts: &Parts) -> IpAddr {
    // The server says it with each request.
    parts.extensions.get::<Peer>().map_or_else(|| IpAddr::from([0, 0, 0, 0]), |peer| peer.0.ip())
}
