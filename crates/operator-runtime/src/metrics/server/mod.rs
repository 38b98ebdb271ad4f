//! Metrics server.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context, Result, bail};
use axum::{
    Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
    routing::get,
};
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::{
    Meter,
    authorization::{Authorizer, authorize},
};
use crate::{
    https::{self, Identity, Server},
    server::{self, Limits},
};

/// Maximum number of open connections.
const MAX_CONNECTIONS: usize = 64;
/// Content type of metrics.
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Access to the metrics server.
pub enum Access {
    /// Plain HTTP without authorization, on a loopback address.
    Insecure,
    /// HTTPS with authorization by the API server.
    Secure {
        /// Serving certificate.
        identity: Identity,
        /// Client for TokenReviews and SubjectAccessReviews.
        client: Client,
    },
}

/// Serves `/metrics` and `more` until `stop`. `more` contains further routes with the same access.
///
/// # Errors
/// Returns an error if the address is in use, does not belong to this machine, or is not loopback
/// for [`Access::Insecure`].
pub async fn serve(
    address: SocketAddr,
    access: Access,
    meter: Arc<Meter>,
    more: Option<Router>,
    stop: CancellationToken,
) -> Result<Server> {
    check_address(address, matches!(access, Access::Secure { .. }))?;
    let router =
        Router::new().route("/metrics", get(metrics)).with_state(meter).merge(more.unwrap_or_default());
    let server = match access {
        Access::Insecure => server::bind(address).await.map(|(listener, address)| Server {
            address,
            task: server::spawn(
                listener,
                None,
                server::router_handler(router),
                Limits::short(MAX_CONNECTIONS),
                stop,
            ),
        }),
        Access::Secure { identity, client } => {
            let router = router.route_layer(from_fn_with_state(Authorizer::new(client), authorize));
            https::serve(address, router, identity, MAX_CONNECTIONS, stop).await
        }
    };
    server
        .context("cannot serve the metrics; choose a free address with --metrics-bind-address, or 0 for none")
}

/// Checks the address of the metrics server.
///
/// # Errors
/// Returns an error for an insecure server on an address that is not loopback.
pub fn check_address(address: SocketAddr, secure: bool) -> Result<()> {
    if !secure && !address.ip().is_loopback() {
        bail!(
            "--metrics-secure=false would expose the metrics on {address} without authorization; use a loopback \
             address, such as 127.0.0.1:8443, or remove the flag"
        );
    }
    Ok(())
}

async fn metrics(State(meter): State<Arc<Meter>>) -> Response {
    match meter.encode() {
        Ok(text) => ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "cannot encode the metrics\n").into_response(),
    }
}

#[cfg(test)]
mod tests;
