//! Probes of the kubelet.

use std::sync::Arc;

use hyper::{Method, Request, StatusCode, body::Incoming};

use super::{
    client::Client,
    health::Health,
    limits::Limits,
    response::{Response, method_not_allowed, text},
    server::Handler,
};

/// Handler of the probes.
pub(super) struct Probes {
    pub(super) health: Arc<Health>,
}

/// Returns the limits for clients of the probes. Each probe has a connection of its own.
pub(super) fn limits(limits: Limits) -> Limits {
    Limits { idle: limits.handshake, age: limits.handshake, ..limits }
}

impl Handler for Probes {
    async fn handle(&self, request: Request<Incoming>, _client: Client) -> Response {
        self.answer(request.method(), request.uri().path())
    }
}

impl Probes {
    fn answer(&self, method: &Method, path: &str) -> Response {
        let problem = match path {
            "/livez" => self.health.stalled(),
            "/readyz" => self.health.unready(),
            _ => return text(StatusCode::NOT_FOUND, "the probes are /livez and /readyz"),
        };
        match problem {
            _ if method != Method::GET => method_not_allowed("GET"),
            Some(problem) => text(StatusCode::SERVICE_UNAVAILABLE, &problem),
            None => text(StatusCode::OK, "ok"),
        }
    }
}
